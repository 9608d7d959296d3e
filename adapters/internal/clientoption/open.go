// Package clientoption makes nodes of the ClientOption of rueidis, and of that of valkey-go, which has the same fields.
package clientoption

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/adapters/internal/nodes"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/pool"
)

// Option has the fields of a ClientOption that are carried over.
type Option struct {
	InitAddress        []string
	SelectDB           int
	ClientName         string
	Username, Password string
	Credentials        func(net.Addr) (username, password string, err error) // AuthCredentialsFn
	Dialer             net.Dialer
	TLSConfig          *tls.Config
	DialFn             func(string, *net.Dialer, *tls.Config) (net.Conn, error)
	DialCtxFn          func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)
	Sentinel           Sentinel
}

// Sentinel has the fields of its Sentinel.
type Sentinel struct {
	MasterSet          string
	Username, Password string
	ClientName         string
	Dialer             net.Dialer
	TLSConfig          *tls.Config
}

// Open makes one node for each ClientOption, of which of returns what is carried over. Errors begin with the name of the adapter.
func Open[O any](adapter string, servers []O, of func(*O) Option, opts []pool.Option) ([]*pool.Node, error) {
	all := make([]*nodes.Server, len(servers))
	for i := range servers {
		err := Fields.Check(servers[i])
		if err == nil {
			all[i], err = of(&servers[i]).one()
		}
		if err != nil {
			return nil, invalid.Errorf("%s: options %d: %w", adapter, i, err)
		}
	}
	made, err := nodes.Open(all, opts)
	if err != nil {
		return nil, invalid.Errorf("%s: %w", adapter, err)
	}
	return made, nil
}

// OpenCluster makes n nodes of the cluster of a ClientOption. Its InitAddress has some of the servers.
func OpenCluster[O any](adapter string, cluster O, of func(*O) Option, n int, opts []pool.Option) ([]*pool.Node, error) {
	s, err := clusterOf(&cluster, of)
	if err != nil {
		return nil, invalid.Errorf("%s: options: %w", adapter, err)
	}
	s.Cluster.Nodes = n
	made, err := nodes.OpenCluster(s, opts)
	if err != nil {
		return nil, invalid.Errorf("%s: %w", adapter, err)
	}
	return made, nil
}

func clusterOf[O any](cluster *O, of func(*O) Option) (*nodes.Server, error) {
	if err := ClusterFields.Check(*cluster); err != nil {
		return nil, err
	}
	o := of(cluster)
	s, err := o.server()
	if err != nil {
		return nil, err
	}
	s.Cluster.Addresses = o.InitAddress
	return s, nil
}

// one returns how the client reaches a server or the primary of a group.
func (o Option) one() (*nodes.Server, error) {
	if n := len(o.InitAddress); n > 1 && o.Sentinel.MasterSet == "" {
		return nil, fmt.Errorf("InitAddress: has %d addresses without a Sentinel.MasterSet: "+
			"use OpenCluster if these are servers of a cluster; otherwise each server needs options of its own", n)
	}
	return o.server()
}

func (o Option) server() (*nodes.Server, error) {
	o.TLSConfig, o.Sentinel.TLSConfig = o.TLSConfig.Clone(), o.Sentinel.TLSConfig.Clone()
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Dialer.Timeout = cmp.Or(o.Dialer.Timeout, nodes.DialTimeout)
	o.Sentinel.Dialer.Timeout = cmp.Or(o.Sentinel.Dialer.Timeout, nodes.DialTimeout)
	s := &nodes.Server{
		Database: o.SelectDB, ClientName: o.ClientName, DialTimeout: o.Dialer.Timeout, Credentials: o.credentials,
		Dial: o.dial(o.Dialer, o.TLSConfig),
	}
	if o.Sentinel.MasterSet != "" {
		s.Group = nodes.Group{
			Name: o.Sentinel.MasterSet, Sentinels: slices.Clone(o.InitAddress), Username: o.Sentinel.Username, Password: o.Sentinel.Password,
			Dial: o.dial(o.Sentinel.Dialer, o.Sentinel.TLSConfig),
		}
		return s, nil
	}
	s.Address = o.InitAddress[0]
	if o.TLSConfig != nil && !o.dials() {
		s.TLS, s.Dial = o.TLSConfig, o.dial(o.Dialer, nil)
	}
	return s, nil
}

// dials reports whether a function of the program makes the connections.
func (o *Option) dials() bool { return o.DialFn != nil || o.DialCtxFn != nil }

func (o *Option) check() error {
	watched := o.Sentinel.MasterSet != ""
	switch {
	case o.SelectDB < 0:
		return fmt.Errorf("SelectDB %d: must be a number from 0", o.SelectDB)
	case o.Dialer.Timeout < 0:
		return fmt.Errorf("Dialer: Timeout %s: must not be below zero", o.Dialer.Timeout) //nolint:staticcheck // it is the name of the field
	case watched && o.Credentials != nil:
		return fmt.Errorf("AuthCredentialsFn: would also have to log in to the sentinels: " +
			"name user and password of both in Username, Password, Sentinel.Username and Sentinel.Password")
	case watched && o.Sentinel.Username != "" && o.Sentinel.Password == "":
		return fmt.Errorf("Sentinel.Username: without Sentinel.Password")
	case watched && o.Sentinel.ClientName != "" && o.Sentinel.ClientName != o.ClientName:
		return fmt.Errorf("Sentinel.ClientName %q: must be ClientName, %q, which the sentinels get too", o.Sentinel.ClientName, o.ClientName)
	}
	return nodes.CheckAddresses("InitAddress", o.InitAddress, o.dials())
}

// dial returns a function that makes a connection as the client does.
func (o *Option) dial(dialer net.Dialer, config *tls.Config) nodes.Dialer {
	return func(ctx context.Context, address string) (net.Conn, error) {
		switch d := dialer; {
		case o.DialCtxFn != nil:
			return o.DialCtxFn(ctx, address, &d, config)
		case o.DialFn != nil:
			return o.DialFn(address, &d, config)
		}
		return nodes.Dial(ctx, dialer, "tcp", address, config)
	}
}

// credentials returns what the client would log in with.
func (o *Option) credentials(_ context.Context, address string) (username, password string, err error) {
	if o.Credentials == nil {
		return o.Username, o.Password, nil
	}
	return o.Credentials(addr(address))
}

// addr returns an address for AuthCredentialsFn: of the same type as that of a connection, unless the host has to be looked up.
func addr(address string) net.Addr {
	if strings.HasPrefix(address, "/") {
		return &net.UnixAddr{Name: address, Net: "unix"}
	}
	if parsed, err := netip.ParseAddrPort(address); err == nil {
		return net.TCPAddrFromAddrPort(parsed)
	}
	return named(address)
}

// named is the address of a host by its name.
type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }
