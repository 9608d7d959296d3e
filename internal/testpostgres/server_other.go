//go:build !linux

package testpostgres

import "testing"

// DSN skips the test.
func DSN(tb testing.TB) string {
	tb.Helper()
	tb.Skip("the test starts PostgreSQL on Linux only")
	return ""
}

// Close does nothing.
func Close() error { return nil }
