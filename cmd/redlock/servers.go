package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// serverFlags say which servers are the nodes and how to reach them. Commands that use locks or look at them embed it.
type serverFlags struct {
	Nodes     []string      `env:"REDLOCK_NODES" placeholder:"URL" group:"Nodes" help:"redis[s]://, valkey[s]://, unix://, redis+sentinel://."`
	Config    configFlag    `env:"REDLOCK_CONFIG" placeholder:"FILE" group:"Nodes" help:"Flags from a JSON file, by their names."`
	KeyPrefix string        `env:"REDLOCK_KEY_PREFIX" placeholder:"TEXT" group:"Nodes" help:"What the key of each lock begins with."`
	Timeout   time.Duration `default:"300ms" placeholder:"TIME" group:"Nodes" help:"How long one node may take (default ${default})."`

	Username     string `env:"REDLOCK_USERNAME" placeholder:"NAME" group:"Nodes" help:"User on all nodes."`
	PasswordFile string `env:"REDLOCK_PASSWORD_FILE" placeholder:"FILE" group:"Nodes" help:"Its first line is the password; or $$REDLOCK_PASSWORD."`
	Password     string `env:"REDLOCK_PASSWORD" hidden:"" help:"Password of all nodes. Not for the command line, which others see."`

	TLSCA   string `name:"tls-ca" env:"REDLOCK_TLS_CA" placeholder:"FILE" group:"Nodes" help:"Certificates that sign those of the nodes."`
	TLSCert string `name:"tls-cert" env:"REDLOCK_TLS_CERT" placeholder:"FILE" group:"Nodes" help:"Client certificate, with --tls-key."`
	TLSKey  string `name:"tls-key" env:"REDLOCK_TLS_KEY" placeholder:"FILE" group:"Nodes" help:"Its key."`
}

// secretEnv are the variables that may hold a password, in them or in a URL. No child process gets them.
var secretEnv = []string{"REDLOCK_NODES", "REDLOCK_USERNAME", "REDLOCK_PASSWORD"}

// check checks the flags before anything is connected.
func (f *serverFlags) check() error {
	if len(f.Nodes) == 0 {
		return usage("no nodes: set --nodes or $REDLOCK_NODES to URLs such as redis://host1:6379,redis://host2:6379,redis://host3:6379, or name a file with --config")
	}
	urls, err := checkURLs(f.Nodes)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	f.Nodes = urls
	if f.Timeout < time.Millisecond {
		return usage("--timeout must be at least 1ms, not %s", plain(f.Timeout))
	}
	if f.Username != "" && f.Password == "" && f.PasswordFile == "" {
		return usage("--username needs a password: set $REDLOCK_PASSWORD or --password-file")
	}
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return usage("--tls-cert and --tls-key belong together: give both or none")
	}
	return nil
}

// connect returns how long a command that looks or acts once waits for a node that it connects to.
func (f *serverFlags) connect() time.Duration { return max(f.Timeout, time.Second) }

// patient is the option of a command that stays: it waits as long as other programs for a node that it connects to.
func (f *serverFlags) patient() pool.Option {
	return pool.WithDialTimeout(client.ConnectTimeout(f.Timeout))
}

// pools opens the nodes. The caller closes them.
func (f *serverFlags) pools(own ...pool.Option) ([]*pool.Node, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	opts := []pool.Option{pool.WithTimeout(f.Timeout), pool.WithDialTimeout(f.connect())}
	if failsOver(f.Nodes) {
		opts = append(opts, anyGuard)
	}
	opts = append(opts, own...) // commands that acquire have a shorter guard, and those that stay wait longer
	if f.Password != "" || f.PasswordFile != "" {
		if _, err := f.password(); err != nil {
			return nil, err
		}
		opts = append(opts, pool.WithCredentials(func(context.Context, string) (string, string, error) {
			password, err := f.password()
			return f.Username, password, err
		}))
	}
	if f.TLSCA != "" || f.TLSCert != "" {
		config, err := f.tls()
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		opts = append(opts, pool.WithTLSConfig(config))
	}
	nodes, err := pool.Open(f.Nodes, opts...)
	if err != nil {
		return nil, &exitError{exitUsage, errors.New(display.Error(err))}
	}
	return nodes, nil
}

// guard returns the restart guard of a command that acquires a lock: the one that was given, or the least one that nodes
// need which fail over. Other nodes need none.
func (f *serverFlags) guard(given, least time.Duration) []pool.Option {
	if given == 0 && failsOver(f.Nodes) {
		given = least
	}
	if given == 0 {
		return nil
	}
	return []pool.Option{pool.WithRestartGuard(given)}
}

// password returns the password that all nodes have; the file is read anew for each connection.
func (f *serverFlags) password() (string, error) {
	if f.PasswordFile == "" {
		return f.Password, nil
	}
	content, err := os.ReadFile(f.PasswordFile)
	if err != nil {
		return "", usage("--password-file: %w", err)
	}
	password, _, _ := strings.Cut(string(content), "\n")
	if password = strings.TrimSuffix(password, "\r"); password == "" {
		return "", usage("--password-file: the first line of %s is empty", f.PasswordFile)
	}
	return password, nil
}

func (f *serverFlags) tls() (*tls.Config, error) {
	config := &tls.Config{}
	if f.TLSCA != "" {
		pem, err := os.ReadFile(f.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca: no certificate in %s", f.TLSCA)
		}
	}
	if f.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// cluster is the nodes and a Locker over them.
type cluster struct {
	*redlock.Locker
	nodes []*pool.Node
}

// Close closes the Locker and the nodes.
func (c *cluster) Close() {
	_ = c.Locker.Close() // always nil
	closeAll(c.nodes)
}

// closeAll closes nodes side by side, because each waits for its timeout if its server hangs.
func closeAll(nodes []*pool.Node) {
	var closing sync.WaitGroup
	for _, n := range nodes {
		closing.Go(func() { _ = n.Close() }) // always nil
	}
	closing.Wait()
}

// use does something with a Locker over the nodes.
func (f *serverFlags) use(do func(*cluster) error, poolOpts []pool.Option, opts ...redlock.Option) error {
	c, err := f.open(poolOpts, opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// silent keeps the Lockers of the tool from logging: the tool itself says what happens.
var silent = redlock.WithLogger(slog.New(slog.DiscardHandler))

// open opens the nodes and a Locker over them. The caller closes it.
func (f *serverFlags) open(poolOpts []pool.Option, opts ...redlock.Option) (*cluster, error) {
	nodes, err := f.pools(poolOpts...)
	if err != nil {
		return nil, err
	}
	if f.KeyPrefix != "" {
		opts = append(opts, redlock.WithKeyPrefix(f.KeyPrefix))
	}
	locker, err := redlock.New(nodes, append(opts, silent)...)
	if err != nil {
		closeAll(nodes)
		return nil, &exitError{exitUsage, errors.New(display.Error(err))}
	}
	return &cluster{locker, nodes}, nil
}

// servers returns how the nodes are reached, for commands that ask them more than a lock does.
func (f *serverFlags) servers() ([]*node.Server, error) {
	nodes, err := f.pools()
	if err != nil {
		return nil, err
	}
	closeAll(nodes) // none was connected
	return serversOf(nodes), nil
}

// serversOf returns the servers of nodes.
func serversOf(nodes []*pool.Node) []*node.Server {
	servers := make([]*node.Server, len(nodes))
	for i, n := range nodes {
		servers[i] = (*node.Node)(n).Config().Server
	}
	return servers
}
