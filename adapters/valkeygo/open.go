package valkeygo

import (
	"net"

	"github.com/valkey-io/valkey-go"

	"github.com/quorumlock/quorumlock/adapters/internal/clientoption"
	"github.com/quorumlock/quorumlock/pool"
)

// Open makes one node for each of the options, Nodes[i] for servers[i]. Nothing is connected before the first use. The package
// documentation says what is carried over. Later changes of the options have no effect.
//
// InitAddress is one address, or with a Sentinel.MasterSet the addresses of the sentinels that watch the group. Each of the options
// must name a server or a group of its own. A failover of a group may lose locks: then opts need [pool.WithRestartGuard]. For the
// servers of a cluster there is [OpenCluster].
//
// Open does not notice one server under two names, such as localhost and 127.0.0.1. The Locker does when both are connected, and
// counts one of the two (nodeerr.ErrSameServer). Only if the server does not permit INFO has it two votes.
//
// opts are those of package pool that do not say how to connect. [pool.WithTLSConfig], [pool.WithCredentials],
// [pool.WithClientName] and [pool.WithDialer] are refused. [pool.WithDialTimeout] takes the place of Dialer.Timeout, and
// [pool.WithName] that of the address, or of the MasterSet with the first sentinel (mymaster@10.0.0.1:26379).
//
// The errors are redlock.ErrInvalid, with a text that names the options by their index and the field by its name.
func Open(servers []valkey.ClientOption, opts ...pool.Option) ([]*pool.Node, error) {
	return clientoption.Open("valkeygo", servers, carried, opts)
}

// OpenCluster makes n nodes (1 to 16) of one Redis Cluster, as the URL redis+cluster://s1,s2/?nodes=n does. InitAddress has the
// addresses of one or more of its servers. Nothing is connected before the first use. Later changes of the options have no effect.
//
// All programs need the same n, whether they have options or the URL: with another number they do not exclude each other. Take
// three for a cluster of three masters or more, five for five or more. A node puts a hash tag before its keys, and its server is
// the master that has the slot of the tag. A master votes for one node only.
//
// A failover may lose locks: opts need [pool.WithRestartGuard]. For the time that it says, a master that is new to a slot grants no
// locks.
//
// The package documentation says what is carried over. opts are those that [Open] takes. [pool.WithDialTimeout] takes the place of
// Dialer.Timeout. [pool.WithName] gets the index of the node; by default its name is that of the tag with the first address, such as
// q0/3.111@10.0.0.1:6379.
//
// The errors are redlock.ErrInvalid, with a text that names the field, or the number of nodes.
func OpenCluster(cluster valkey.ClientOption, n int, opts ...pool.Option) ([]*pool.Node, error) {
	return clientoption.OpenCluster("valkeygo", cluster, carried, n, opts)
}

// carried returns what is carried over.
func carried(o *valkey.ClientOption) clientoption.Option {
	c := clientoption.Option{
		InitAddress: o.InitAddress, SelectDB: o.SelectDB, ClientName: o.ClientName, Username: o.Username, Password: o.Password,
		Dialer: o.Dialer, TLSConfig: o.TLSConfig, DialFn: o.DialFn, DialCtxFn: o.DialCtxFn,
		Sentinel: clientoption.Sentinel{
			MasterSet: o.Sentinel.MasterSet, Username: o.Sentinel.Username, Password: o.Sentinel.Password,
			ClientName: o.Sentinel.ClientName, Dialer: o.Sentinel.Dialer, TLSConfig: o.Sentinel.TLSConfig,
		},
	}
	if ask := o.AuthCredentialsFn; ask != nil {
		c.Credentials = func(address net.Addr) (username, password string, err error) {
			got, err := ask(valkey.AuthCredentialsContext{Address: address})
			return got.Username, got.Password, err
		}
	}
	return c
}
