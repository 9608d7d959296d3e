package goredis

// FailoverFields and Fields have what becomes of each field of the options.
var (
	FailoverFields = failoverFields
	Fields         = fields
)
