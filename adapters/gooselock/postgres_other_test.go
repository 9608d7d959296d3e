//go:build !linux

package gooselock_test

import "testing"

func postgresDSN(t *testing.T) string {
	t.Helper()
	t.Skip("the test starts PostgreSQL on Linux only")
	return ""
}

func closePostgres() error { return nil }
