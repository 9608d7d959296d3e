// Package tenants_test runs Lockers on servers that others use too, and use badly: foreign keys under the names of
// locks, messages on the Lockers' channels, and servers that are reconfigured, emptied, paused and restarted.
//
// A seed makes the driver's choices, always the same ones, but what Lockers and servers make of them depends on the
// scheduler. A seed that failed may need some repetitions to fail again:
//
//	QUORUMLOCK_TENANTS=60s QUORUMLOCK_TENANTS_SEED=17 go test -race ./internal/tenants
package tenants_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
