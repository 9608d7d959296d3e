// Package goredis makes the nodes of a lock from what a program says to github.com/redis/go-redis/v9, and lets package fence
// write through its clients.
//
//	nodes, err := goredis.Open(servers) // []*redis.Options, which redis.NewClient gets
//	...
//	for _, n := range nodes {
//		defer n.Close()
//	}
//	locker, err := redlock.New(nodes)
//	...
//	defer locker.Close()
//	err = locker.Do(ctx, "invoice-4711", bill) // func bill(ctx context.Context, lock *redlock.Lock) error
//
// The nodes do not use the clients of go-redis. Each has one connection of its own, which package pool makes as go-redis would:
// to the same address, with the same TLS, login and database. The caller closes the nodes after the Lockers.
//
// [OpenFailover] does the same with the options of groups ([]*redis.FailoverOptions) that Sentinels watch. Each group is one node, so
// a lock needs several. A failover may lose locks, which pool.WithRestartGuard makes up for:
//
//	nodes, err := goredis.OpenFailover(groups, pool.WithRestartGuard(time.Minute)) // above the longest TTL
//
// [OpenCluster] makes several nodes of one Redis Cluster, the same as the URL redis+cluster://s1,s2/?nodes=3:
//
//	options := &redis.ClusterOptions{Addrs: []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}}
//	nodes, err := goredis.OpenCluster(options, 3, pool.WithRestartGuard(time.Minute)) // above the longest TTL
//
// # What is carried over
//
//   - Network and Addr, with the defaults of go-redis: localhost:6379, and a Unix socket if Addr begins with a slash. Addr is the
//     name of the node in errors and logs too.
//   - Dialer. It gets Network and Addr, and has to encrypt by itself: go-redis ignores TLSConfig beside a Dialer, and so does Open.
//   - TLSConfig. Without a ServerName that is the host of Addr.
//   - StreamingCredentialsProvider, CredentialsProviderContext, CredentialsProvider, or Username and Password: the first of them
//     that is set. A provider is asked for every new connection. Without a password there is no login, whatever the user name.
//   - DB and ClientName.
//   - DialTimeout, of which the zero value is 5 s. It also bounds the login.
//   - Of a group MasterName, SentinelAddrs, SentinelUsername and SentinelPassword. Dialer, TLSConfig and ClientName are for the
//     sentinels too, the providers of credentials are not. Without a ServerName the TLSConfig checks for the host that is dialled.
//   - Of a cluster Addrs, each with a port unless there is a Dialer. The Dialer gets them as they are, and the addresses that the
//     cluster names. TLSConfig and credentials are for all servers.
//
// # What is not
//
//   - OnConnect is refused. It is a function on a connection of go-redis, and may select a database or log in. Set it to nil in a
//     copy of the options if locks do not need what it does.
//   - ReadOnly, RouteByLatency, RouteRandomly, ReplicaOnly and UseDisconnectedReplicas are refused: the nodes of a lock are
//     primaries. So are the options of a client that a cluster client made to read from replicas (readOnly).
//   - A field that is set and unknown here, because go-redis is newer, is refused.
//   - The hooks of a client (AddHook) are no options, so nodes do not call them.
//   - Limiter, MaxRetries, ReadTimeout, WriteTimeout and PoolTimeout have no effect: a node has its own timeout (pool.WithTimeout)
//     and sends a command once.
//   - The sizes of pools and buffers, the times after which connections are replaced, caching and maintenance notifications have
//     no effect. Neither has Protocol: a node asks for RESP3, and works without.
//   - ClusterSlots is refused: a node asks the servers of the cluster. So is a NewClient other than redis.NewClient, because a node
//     has no client. MaxRedirects, DisableRoutingPolicies, ShardPicker and ClusterStateReloadInterval have no effect: the server that
//     has lost a slot says so (MOVED), and the node asks for the next one.
//   - There is nothing here for the options of a Ring. The nodes of a lock are independent primaries.
//   - Sentinels that SentinelAddrs does not name are not used. go-redis asks the others for them.
//
// # Traps
//
//   - [redis.Client.Options] may be given to Open. Its Dialer is never nil: go-redis has put its own there, which ignores the
//     context while it dials with TLS. Closing such a node may take its DialTimeout, which go-redis sets to 5 s. Open refuses the
//     options of a client that redis.NewFailoverClient made.
//   - A StreamingCredentialsProvider announces new credentials to connections that are open. A node does not log in again with
//     them. If the server ends the connection when the old ones expire, the node connects again at once, with the new ones. If
//     all servers do that at the same moment, there is no majority for as long as it takes.
//   - Each node subscribes to its StreamingCredentialsProvider when it first connects, and stays subscribed after it is closed, for as
//     long as the process lasts. It asks with the same listener for each connection, which has no effect on the subscription, as package
//     auth of go-redis demands. The nodes of a cluster have one listener.
//   - A CredentialsProvider and a StreamingCredentialsProvider get no context, so closing the node waits for them.
//
// # Fences
//
// [Doer] makes a client of go-redis what package fence writes through:
//
//	locker, err := redlock.New(nodes, redlock.WithFencing())
//	...
//	defer locker.Close()
//	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true}) // of the data
//	defer client.Close()
//	err = locker.Do(ctx, "invoice-4711", func(ctx context.Context, lock *redlock.Lock) error {
//		_, err := fence.Run(ctx, goredis.Doer(client), "{invoice-4711}:guard", lock.Fence(),
//			fence.Command{"SET", fence.Key("{invoice-4711}:state"), "billed"})
//		return err
//	})
//
// Without ContextTimeoutEnabled a client ignores the deadline of a context. [redis.Client.Eval] and [redis.Script] check no fence.
package goredis
