package goredis

import "github.com/quorumlock/quorumlock/adapters/internal/nodes"

const (
	primaries nodes.Decision = "the nodes of a lock are primaries, and a replica grants and reads nothing"
	onConnect nodes.Decision = "a node has no connection of go-redis to call it with; set it to nil in a copy of the options " +
		"if locks do not need what it does"
)

// common has what becomes of the fields that the options of servers, of groups and of clusters have.
var common = nodes.Decisions{
	"Dialer": nodes.Carried, "TLSConfig": nodes.Carried, "DialTimeout": nodes.Carried, "ClientName": nodes.Carried,
	"Username": nodes.Carried, "Password": nodes.Carried, "CredentialsProvider": nodes.Carried,
	"CredentialsProviderContext": nodes.Carried, "StreamingCredentialsProvider": nodes.Carried,

	"OnConnect": onConnect,

	"Protocol": nodes.NoEffect, "UnstableResp3": nodes.NoEffect, "PushNotificationProcessor": nodes.NoEffect,
	"DisableIndentity": nodes.NoEffect, "DisableIdentity": nodes.NoEffect, "IdentitySuffix": nodes.NoEffect,
	"MaxRetries": nodes.NoEffect, "MinRetryBackoff": nodes.NoEffect, "MaxRetryBackoff": nodes.NoEffect,
	"DialerRetries": nodes.NoEffect, "DialerRetryTimeout": nodes.NoEffect, "DialerRetryBackoff": nodes.NoEffect,
	"ReadTimeout": nodes.NoEffect, "WriteTimeout": nodes.NoEffect, "ContextTimeoutEnabled": nodes.NoEffect,
	"ReadBufferSize": nodes.NoEffect, "WriteBufferSize": nodes.NoEffect, "PipelineReadBufferSize": nodes.NoEffect,
	"PipelineWriteBufferSize": nodes.NoEffect, "PipelinePoolSize": nodes.NoEffect, "AutoPipelineOptions": nodes.NoEffect,
	"PoolFIFO": nodes.NoEffect, "PoolSize": nodes.NoEffect, "MaxConcurrentDials": nodes.NoEffect, "PoolTimeout": nodes.NoEffect,
	"MinIdleConns": nodes.NoEffect, "MaxIdleConns": nodes.NoEffect, "MaxActiveConns": nodes.NoEffect,
	"ConnMaxIdleTime": nodes.NoEffect, "ConnMaxLifetime": nodes.NoEffect, "ConnMaxLifetimeJitter": nodes.NoEffect,
	"FailingTimeoutSeconds": nodes.NoEffect,
}

// fields has what becomes of each field of the options of a server.
var fields = common.And(nodes.Decisions{
	"Network": nodes.Carried, "Addr": nodes.Carried, "DB": nodes.Carried,
	"NodeAddress": nodes.NoEffect, "Limiter": nodes.NoEffect, "MaintNotificationsConfig": nodes.NoEffect,
	"ClientSideCacheConfig": nodes.NoEffect, "ClientSideCache": nodes.NoEffect, "ClientSideCacheStrategy": nodes.NoEffect,
	"ClientSideCacheRefreshOnInvalidate": nodes.NoEffect, "ClientSideCacheCoalesceMisses": nodes.NoEffect,
	"ClientSideCacheInvalidationBatchWindow": nodes.NoEffect,
	"maxConcurrentDialsSet":                  nodes.NoEffect, "maxConcurrentDialsInit": nodes.NoEffect,
	"readOnly": primaries, // of a client that reads from replicas
})

// failoverFields has what becomes of each field of the options of a group.
var failoverFields = common.And(nodes.Decisions{
	"MasterName": nodes.Carried, "DB": nodes.Carried, "SentinelAddrs": nodes.Carried, "SentinelUsername": nodes.Carried, "SentinelPassword": nodes.Carried,
	"RouteByLatency": primaries, "RouteRandomly": primaries, "ReplicaOnly": primaries, "UseDisconnectedReplicas": primaries,
	"RouteByLatencyTolerance": nodes.NoEffect,
})

// clusterFields has what becomes of each field of the options of a cluster.
var clusterFields = common.And(nodes.Decisions{
	"Addrs":    nodes.Carried,
	"ReadOnly": primaries, "RouteByLatency": primaries, "RouteRandomly": primaries,
	"RouteByLatencyTolerance": nodes.NoEffect,
	"NewClient":               "a node has no client of go-redis; set it to nil in a copy of the options if locks do not need what it does",
	"ClusterSlots": "a node asks the servers of the cluster for the owner of its slot; give the options of independent servers to Open, " +
		"and those of groups that Sentinels watch to OpenFailover",
	"MaxRedirects": nodes.NoEffect, "DisableRoutingPolicies": nodes.NoEffect, "ShardPicker": nodes.NoEffect,
	"ClusterStateReloadInterval": nodes.NoEffect, "MaintNotificationsConfig": nodes.NoEffect,
})
