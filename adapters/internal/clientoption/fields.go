package clientoption

import "github.com/quorumlock/quorumlock/adapters/internal/nodes"

const primaries nodes.Decision = "the nodes of a lock are primaries, and a replica grants and reads nothing"

// Fields has what becomes of each field of a ClientOption.
var Fields = nodes.Decisions{
	"InitAddress": nodes.Carried, "SelectDB": nodes.Carried, "ClientName": nodes.Carried, "Dialer": nodes.Carried,
	"TLSConfig": nodes.Carried, "DialFn": nodes.Carried, "DialCtxFn": nodes.Carried,
	"Username": nodes.Carried, "Password": nodes.Carried, "AuthCredentialsFn": nodes.Carried,
	"Sentinel.MasterSet": nodes.Carried, "Sentinel.Username": nodes.Carried, "Sentinel.Password": nodes.Carried,
	"Sentinel.ClientName": nodes.Carried, "Sentinel.Dialer": nodes.Carried, "Sentinel.TLSConfig": nodes.Carried,

	"ReplicaOnly": primaries, "SendToReplicas": primaries, "ReplicaSelector": primaries, "ReadNodeSelector": primaries,
	"Standalone.ReplicaAddress": primaries,
	"Standalone.EnableRedirect": "a node stays with its server, and reports when that becomes a replica",
	"OnInvalidations": "a node learns of changes on a connection of its own, and calls nothing; set it to nil in a copy of the options " +
		"if locks do not need it",

	// A node of Open does not ask whether its server is one of a cluster. It learns that from the first key that lies elsewhere
	// (MOVED). A node of OpenCluster asks the servers that are known.
	"ForceSingleClient": nodes.NoEffect, "ClusterOption": nodes.NoEffect,
	// It asks the sentinels in random order, and looks by itself where the primary is.
	"ShuffleInit": nodes.NoEffect, "Sentinel.TopologyRefreshInterval": nodes.NoEffect,
	// It has one connection, sends a command once, and waits for its own timeout.
	"PipelineMultiplex": nodes.NoEffect, "BlockingPoolCleanup": nodes.NoEffect, "BlockingPoolMinSize": nodes.NoEffect,
	"BlockingPoolSize": nodes.NoEffect, "BlockingPipeline": nodes.NoEffect, "ConnWriteTimeout": nodes.NoEffect,
	"ConnLifetime": nodes.NoEffect, "MaxFlushDelay": nodes.NoEffect, "DisableAutoPipelining": nodes.NoEffect,
	"AlwaysPipelining": nodes.NoEffect, "DisableTCPNoDelay": nodes.NoEffect, "RingScaleEachConn": nodes.NoEffect,
	"ReadBufferEachConn": nodes.NoEffect, "WriteBufferEachConn": nodes.NoEffect,
	"RetryDelay": nodes.NoEffect, "DisableRetry": nodes.NoEffect,
	// It caches nothing.
	"NewCacheStoreFn": nodes.NoEffect, "CacheSizeEachConn": nodes.NoEffect, "DisableCache": nodes.NoEffect,
	"ClientTrackingOptions": nodes.NoEffect,
	// It asks for RESP3, and works without.
	"AlwaysRESP2": nodes.NoEffect,
	// Servers know it by its ClientName.
	"ClientSetInfo": nodes.NoEffect, "ClientNoTouch": nodes.NoEffect, "ClientNoEvict": nodes.NoEffect,
	"EnableReplicaAZInfo": nodes.NoEffect, "AZFromInfo": nodes.NoEffect,
}

// ClusterFields has what becomes of each field of a ClientOption that is for a cluster.
var ClusterFields = Fields.And(nodes.Decisions{
	"SelectDB":           "a cluster has no database but 0",
	"ForceSingleClient":  "the options are for a single server then: use Open",
	"Sentinel.MasterSet": "the options are for a group that Sentinels watch then: use Open",
})
