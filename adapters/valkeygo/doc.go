// Package valkeygo makes the nodes of a lock from what a program says to github.com/valkey-io/valkey-go.
//
//	nodes, err := valkeygo.Open(servers) // []valkey.ClientOption, which valkey.NewClient gets
//	...
//	for _, n := range nodes {
//		defer n.Close()
//	}
//	locker, err := redlock.New(nodes)
//	...
//	defer locker.Close()
//	err = locker.Do(ctx, "invoice-4711", bill) // func bill(ctx context.Context, lock *redlock.Lock) error
//
// The nodes do not use the clients of valkey-go. Each has one connection of its own, which package pool makes as valkey-go would: to the
// same address, with the same TLS, login and database. The caller closes the nodes after the Lockers.
//
// With a Sentinel.MasterSet the options describe a group that Sentinels watch, and a node is its primary. Each group is one
// node, so a lock needs several. A failover may lose locks, which pool.WithRestartGuard makes up for.
//
// [OpenCluster] makes several nodes of one Redis Cluster, the same as the URL redis+cluster://s1,s2/?nodes=3:
//
//	cluster := valkey.ClientOption{InitAddress: []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}}
//	nodes, err := valkeygo.OpenCluster(cluster, 3, pool.WithRestartGuard(time.Minute)) // above the longest TTL
//
// # What is carried over
//
//   - InitAddress: one address, the addresses of the sentinels, or those of some servers of a cluster.
//   - DialCtxFn, or DialFn. It gets the address, the Dialer and the TLSConfig, and has to encrypt by itself.
//   - Dialer, and TLSConfig. Without a ServerName that is the host that is dialled. The zero value of Dialer.Timeout is 5 s. The
//     timeout also bounds the login.
//   - AuthCredentialsFn, or Username and Password. The function is asked for every new connection.
//   - SelectDB and ClientName. All but SelectDB is for all servers of a cluster.
//   - Sentinel: MasterSet, Username, Password, Dialer and TLSConfig are for the sentinels, as in valkey-go: without a
//     Sentinel.TLSConfig they are talked to in the clear. DialCtxFn and DialFn are for the sentinels too, and so is ClientName.
//
// # What is not
//
// A field that is refused has to have its zero value in a copy of the options.
//
//   - Open refuses several addresses in InitAddress without a Sentinel.MasterSet: the servers of one cluster are not independent.
//   - OpenCluster refuses SelectDB, ForceSingleClient and Sentinel.MasterSet.
//   - ReplicaOnly, SendToReplicas, ReplicaSelector, ReadNodeSelector, Standalone.ReplicaAddress and Standalone.EnableRedirect are
//     refused: the nodes of a lock are primaries. So is OnInvalidations, because a node does not call it.
//   - With a Sentinel.MasterSet, AuthCredentialsFn is refused, and a Sentinel.ClientName that is not ClientName.
//   - A field that is set and unknown here, because valkey-go is newer, is refused.
//   - The sizes of pools and buffers, pipelining, retries, caching, ConnWriteTimeout and ConnLifetime have no effect. A node has its
//     own timeout (pool.WithTimeout) and sends a command once. Neither has AlwaysRESP2: a node asks for RESP3, and works without.
//   - ForceSingleClient and ClusterOption have no effect: a node of Open is always one server. If that has only some of the slots of a
//     cluster, it refuses the other keys (MOVED). A node of OpenCluster asks for the server that has its slot, and asks again when
//     that has lost it. Without a Sentinel.MasterSet, Sentinel has no effect.
//   - ShuffleInit and Sentinel.TopologyRefreshInterval have no effect: a node asks the sentinels in random order, and looks each 15
//     to 30 s whether the primary is still where it was. Sentinels that InitAddress does not name are not used.
//
// # Traps
//
//   - RefreshAfter of the credentials has no effect: a node does not log in again. If the server ends the connection when they
//     expire, the node connects again at once, with new ones. If all servers do that at the same moment, there is no majority for as
//     long as it takes.
//   - AuthCredentialsFn is asked before the connection is made. Its Address is a *net.TCPAddr if InitAddress, or the cluster, has an
//     IP address, and otherwise some net.Addr whose String is what is there.
//   - AuthCredentialsFn and DialFn get no context, so closing the node waits for them.
package valkeygo
