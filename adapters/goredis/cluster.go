package goredis

import (
	"reflect"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/adapters/internal/nodes"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/pool"
)

// OpenCluster makes n nodes (1 to 16) of one Redis Cluster, as the URL redis+cluster://s1,s2/?nodes=n does. redis.NewClusterClient
// gets the same options. Nothing is connected before the first use. Later changes of the options have no effect.
//
// All programs need the same n, whether they have options or the URL: with another number they do not exclude each other. Take
// three for a cluster of three masters or more, five for five or more. A node puts a hash tag before its keys, and its server is
// the master that has the slot of the tag. A master votes for one node only.
//
// A failover may lose locks: opts need [pool.WithRestartGuard]. For the time that it says, a master that is new to a slot grants no
// locks.
//
// The package documentation says what is carried over. opts are those that [Open] takes. [pool.WithDialTimeout] takes the place of
// DialTimeout. [pool.WithName] gets the index of the node; by default its name is that of the tag with the first of the Addrs, such
// as q0/3.111@10.0.0.1:6379.
//
// The errors are redlock.ErrInvalid, with a text that names the field, or the number of nodes.
func OpenCluster(options *redis.ClusterOptions, n int, opts ...pool.Option) ([]*pool.Node, error) {
	if options == nil {
		return nil, invalid.Errorf("goredis: options: nil")
	}
	s, err := newCluster(options)
	if err != nil {
		return nil, invalid.Errorf("goredis: options: %w", err)
	}
	s.Cluster.Nodes = n
	made, err := nodes.OpenCluster(s, opts)
	if err != nil {
		return nil, invalid.Errorf("goredis: %w", err)
	}
	return made, nil
}

func newCluster(options *redis.ClusterOptions) (*nodes.Server, error) {
	o := *options
	if isNewClient(o.NewClient) {
		o.NewClient = nil
	}
	if err := clusterFields.Check(o); err != nil {
		return nil, err
	}
	if err := nodes.CheckAddresses("Addrs", o.Addrs, o.Dialer != nil); err != nil {
		return nil, err
	}
	s, err := newServer(redis.Options{
		Addr: o.Addrs[0], Network: "tcp", Dialer: o.Dialer, TLSConfig: o.TLSConfig, DialTimeout: o.DialTimeout,
		ClientName: o.ClientName, Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
		CredentialsProviderContext: o.CredentialsProviderContext, StreamingCredentialsProvider: o.StreamingCredentialsProvider,
	})
	if err != nil {
		return nil, err
	}
	node := s.node()
	node.Cluster.Addresses = o.Addrs
	return node, nil
}

// isNewClient reports whether a function is that of go-redis, which redis.NewClusterClient puts into the options that it gets.
func isNewClient(f func(*redis.Options) *redis.Client) bool {
	return f != nil && reflect.ValueOf(f).Pointer() == reflect.ValueOf(redis.NewClient).Pointer()
}
