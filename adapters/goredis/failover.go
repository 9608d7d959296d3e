package goredis

import (
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/adapters/internal/nodes"
	"github.com/quorumlock/quorumlock/pool"
)

// OpenFailover makes one node for each group of servers that Sentinels watch, Nodes[i] for groups[i]. redis.NewFailoverClient gets the
// same options. A node is the primary of its group, and moves when another server becomes the primary. One group is one node, so a
// lock needs several groups.
//
// A failover may lose locks: opts need [pool.WithRestartGuard]. For the time that it says, a primary that is new grants no locks.
//
// The package documentation says what is carried over. What [Open] says of its arguments and errors holds here too. No two groups
// have one MasterName and a sentinel in common. The name of a node in errors and logs is the MasterName with the first of the
// SentinelAddrs, such as mymaster@10.0.0.1:26379.
func OpenFailover(groups []*redis.FailoverOptions, opts ...pool.Option) ([]*pool.Node, error) {
	return open(groups, newGroup, opts)
}

func newGroup(o *redis.FailoverOptions) (*nodes.Server, error) {
	if err := failoverFields.Check(*o); err != nil {
		return nil, err
	}
	if o.MasterName == "" {
		return nil, fmt.Errorf("MasterName: must be the name that the sentinels have for the group")
	}
	if err := nodes.CheckAddresses("SentinelAddrs", o.SentinelAddrs, o.Dialer != nil); err != nil {
		return nil, err
	}
	s, err := newServer(redis.Options{
		Addr: o.SentinelAddrs[0], Network: "tcp", Dialer: o.Dialer, TLSConfig: o.TLSConfig, DialTimeout: o.DialTimeout, DB: o.DB,
		ClientName: o.ClientName, Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
		CredentialsProviderContext: o.CredentialsProviderContext, StreamingCredentialsProvider: o.StreamingCredentialsProvider,
	})
	if err != nil {
		return nil, err
	}
	n := s.node()
	n.TLS, n.Dial = nil, s.dial(s.TLSConfig)
	n.Group = nodes.Group{
		Name: o.MasterName, Sentinels: slices.Clone(o.SentinelAddrs), Username: o.SentinelUsername, Password: o.SentinelPassword,
		Dial: n.Dial,
	}
	return n, nil
}
