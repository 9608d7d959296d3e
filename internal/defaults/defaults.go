// Package defaults has the times that pages, alerts and the dashboard name too. A test compares all of them.
package defaults

import "time"

// The times that hold if a program sets none.
const (
	NodeTimeout = 300 * time.Millisecond // for one command on one node (pool.WithTimeout)
	TTL         = 10 * time.Second       // of a lock (redlock.WithTTL)
)

// StuckKey is how long keys without a TTL have to be unchanged before a waiting call tells of them.
const StuckKey = 10 * time.Second
