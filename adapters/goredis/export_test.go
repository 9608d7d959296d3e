package goredis

// ClusterFields, FailoverFields and Fields have what becomes of each field of the options.
var (
	ClusterFields  = clusterFields
	FailoverFields = failoverFields
	Fields         = fields
)
