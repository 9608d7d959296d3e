package caddylock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"

	"github.com/quorumlock/quorumlock/adapters/certmagiclock"
	"github.com/quorumlock/quorumlock/redlock"
)

func init() { caddy.RegisterModule(new(Storage)) }

const (
	namespace     = "caddy.storage"
	name          = "redlock"
	defaultPrefix = "caddy:"
	// patience is how long the locks of an old configuration are renewed: certmagic gives an attempt 90 s.
	patience = 2 * time.Minute
)

// Storage is a storage of Caddy with other locks.
type Storage struct {
	// Nodes are the URLs of the Redis servers, such as redis://10.0.0.1:6379, in the forms of pool.Open, with placeholders. At least
	// one is needed; three or five survive the loss of one or two.
	Nodes []string `json:"nodes,omitempty"`
	// Prefix is what the keys of the locks begin with. It is the same on all servers with one storage, and another one for another
	// storage. "caddy:" if it is empty.
	Prefix string `json:"prefix,omitempty"`
	// TTL is how long the others wait after a server has died with a lock. 0 is the default of package redlock.
	TTL caddy.Duration `json:"ttl,omitempty"`
	// StorageRaw is the storage that has the certificates. Without it that is the default of Caddy, a directory of this machine.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=caddy.storage inline_key=module"`

	key     string // of the Locker in lockers; "" if there is none
	storage *certmagiclock.Storage
}

var (
	_ caddy.Provisioner      = (*Storage)(nil)
	_ caddy.CleanerUpper     = (*Storage)(nil)
	_ caddy.StorageConverter = (*Storage)(nil)
	_ caddyfile.Unmarshaler  = (*Storage)(nil)
)

// lockers are the Lockers by what they are made from: a configuration that is loaded again keeps its Locker.
var lockers = caddy.NewUsagePool()

// locker is closed when no configuration uses it.
type locker struct{ *redlock.Locker }

func (l locker) Destruct() error { return l.Close() }

// CaddyModule returns the name of the module and how it is made.
func (*Storage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: namespace + "." + name, New: func() caddy.Module { return new(Storage) }}
}

// Provision makes the locks and the storage. It connects to no Redis server.
func (s *Storage) Provision(ctx caddy.Context) error {
	under, err := s.wrapped(ctx)
	if err != nil {
		return err
	}
	replacer, urls := caddy.NewReplacer(), make([]string, len(s.Nodes))
	for i, url := range s.Nodes {
		if urls[i], err = replacer.ReplaceOrErr(url, true, true); err != nil {
			return fmt.Errorf("nodes: URL %d: %w", i, err)
		}
	}
	prefix := s.Prefix
	if prefix == "" {
		prefix = defaultPrefix
	}
	key := fmt.Sprintf("%q %q %d", urls, prefix, s.TTL)
	shared, _, err := lockers.LoadOrNew(key, func() (caddy.Destructor, error) {
		opts := []redlock.Option{redlock.WithKeyPrefix(prefix), redlock.WithLogger(slog.New(newHandler()))}
		if s.TTL != 0 {
			opts = append(opts, redlock.TTL(time.Duration(s.TTL)))
		}
		l, err := redlock.Open(urls, opts...)
		return locker{l}, err
	})
	if err != nil {
		return fmt.Errorf("nodes, prefix or ttl: %w", err)
	}
	s.key = key
	s.storage, err = certmagiclock.New(under, shared.(locker).Locker)
	return err
}

// wrapped returns the storage that has the certificates.
func (s *Storage) wrapped(ctx caddy.Context) (certmagic.Storage, error) {
	if s.StorageRaw == nil {
		return caddy.DefaultStorage, nil
	}
	module, err := ctx.LoadModule(s, "StorageRaw")
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	converter, ok := module.(caddy.StorageConverter)
	if !ok {
		return nil, fmt.Errorf("storage: %T is no storage", module)
	}
	storage, err := converter.CertMagicStorage()
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	return storage, nil
}

// CertMagicStorage returns the storage that Provision has made.
func (s *Storage) CertMagicStorage() (certmagic.Storage, error) {
	if s.storage == nil {
		return nil, errors.New(namespace + "." + name + ": not provisioned")
	}
	return s.storage, nil
}

// Cleanup gives the Locker up when the locks of this configuration are released, in the background.
func (s *Storage) Cleanup() error {
	if s.key == "" {
		return nil
	}
	key, storage := s.key, s.storage
	s.key = ""
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if storage != nil {
			_ = storage.Wait(ctx)
		}
		_, _ = lockers.Delete(key) // the error of Close is always nil
	}()
	return nil
}

// UnmarshalCaddyfile reads the form that the package documentation shows. Each of nodes, prefix, ttl and storage is there once at
// most; nodes has to be there.
func (s *Storage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the module
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := map[string]bool{}
	for d.NextBlock(0) {
		option := d.Val()
		if seen[option] {
			return d.Errf("%s: given twice", option)
		}
		seen[option] = true
		if err := s.unmarshal(option, d); err != nil {
			return err
		}
	}
	if len(s.Nodes) == 0 {
		return d.Err("nodes: must be there, with the URL of each Redis server")
	}
	return nil
}

func (s *Storage) unmarshal(option string, d *caddyfile.Dispenser) error {
	if option == "nodes" {
		s.Nodes = d.RemainingArgs()
		return nil
	}
	if !slices.Contains([]string{"prefix", "ttl", "storage"}, option) {
		return d.Errf("%s: only nodes, prefix, ttl and storage are known", option)
	}
	if !d.NextArg() {
		return d.ArgErr()
	}
	value := d.Val()
	switch option {
	case "storage":
		module, err := caddyfile.UnmarshalModule(d, namespace+"."+value)
		if err != nil {
			return err
		}
		s.StorageRaw = caddyconfig.JSONModuleObject(module, "module", value, nil)
		return nil
	case "ttl":
		ttl, err := caddy.ParseDuration(value)
		if err != nil || ttl <= 0 {
			return d.Errf("ttl %s: must be a duration above zero, such as 8s", value)
		}
		s.TTL = caddy.Duration(ttl)
	default:
		s.Prefix = value
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}
