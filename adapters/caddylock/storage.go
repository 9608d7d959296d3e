package caddylock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Storage is a storage of Caddy with other locks. Each text of its own may have placeholders. One that is unknown or empty is an error.
type Storage struct {
	// Nodes are the URLs of the Redis servers, such as redis://10.0.0.1:6379, in the forms of pool.Open. At least one is needed; three
	// or five survive the loss of one or two.
	Nodes []string `json:"nodes,omitempty"`
	// Prefix is what the keys of the locks begin with. It is the same on all servers with one storage, and another one for another
	// storage. "caddy:" if it is empty.
	Prefix string `json:"prefix,omitempty"`
	// TTL is how long the others wait after a server has died with a lock, such as 8s. The default is that of package redlock, 10s.
	TTL string `json:"ttl,omitempty"`
	// Timeout is how long a command may take on one Redis server. The default is that of package pool, 300ms.
	Timeout string `json:"timeout,omitempty"`
	// CA is a file with the root certificates, in PEM form, of Redis servers with rediss URLs. By default those of the system decide.
	// It is read when the configuration is loaded.
	CA string `json:"ca,omitempty"`
	// Certificate and Key are files with the certificate, in PEM form, by which Caddy logs in to Redis servers with rediss URLs, and
	// its key. They are read for each connection.
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
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
	of, err := s.settings()
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%#v", of)
	shared, _, err := lockers.LoadOrNew(key, func() (caddy.Destructor, error) {
		l, err := redlock.Open(of.nodes, of.options()...)
		return locker{l}, err
	})
	if err != nil {
		return fmt.Errorf("nodes, prefix, ttl, timeout, ca or certificate: %w", err)
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

// UnmarshalCaddyfile reads the form that the package documentation shows. nodes has to be there, in one line or several; each of the
// others is there once at most.
func (s *Storage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the module
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := map[string]bool{}
	for d.NextBlock(0) {
		option := d.Val()
		if seen[option] && option != "nodes" {
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
	fields := map[string][]*string{
		"prefix": {&s.Prefix}, "ttl": {&s.TTL}, "timeout": {&s.Timeout}, "ca": {&s.CA}, "certificate": {&s.Certificate, &s.Key},
	}
	switch field, known := fields[option]; {
	case option == "nodes":
		urls := d.RemainingArgs()
		if len(urls) == 0 {
			return d.Err("nodes: must be there, with the URL of each Redis server")
		}
		s.Nodes = append(s.Nodes, urls...)
	case option == "storage":
		if !d.NextArg() {
			return d.ArgErr()
		}
		value := d.Val()
		module, err := caddyfile.UnmarshalModule(d, namespace+"."+value)
		if err != nil {
			return err
		}
		s.StorageRaw = caddyconfig.JSONModuleObject(module, "module", value, nil)
	case !known:
		return d.Errf("%s: only nodes, prefix, ttl, timeout, ca, certificate and storage are known", option)
	case !d.AllArgs(field...):
		return d.ArgErr()
	case slices.ContainsFunc(field, func(text *string) bool { return *text == "" }):
		return d.Errf("%s: is empty", option)
	}
	return nil
}
