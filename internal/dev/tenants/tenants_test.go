// Package tenants_test runs Lockers on servers that others use too, and use badly: foreign keys under the names of
// locks, messages on the Lockers' channels, and servers that are reconfigured, emptied, paused and restarted.
//
// A seed makes the driver's choices, always the same ones, but what Lockers and servers make of them depends on the
// scheduler. A seed that failed may need some repetitions to fail again:
//
//	QUORUMLOCK_TENANTS=60s QUORUMLOCK_TENANTS_SEED=17 go test -race ./internal/dev/tenants
package tenants_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	lastingVariable = "QUORUMLOCK_TENANTS"      // how long the test goes on
	seedVariable    = "QUORUMLOCK_TENANTS_SEED" // the driver's choices
)

// The promises, whatever others do on the servers:
//   - No crash, no data race; memory and goroutines stay bounded, and nothing is left after Close.
//   - Two holders are never inside at once, and fencing tokens rise, among locks that no server has forgotten.
//   - While a minority of the servers is in trouble, names that nobody disturbs are served without a failure.
//   - A name that is somebody's key gets an error that says so, data stays as it is, and the name is served again
//     once the key is gone.
//   - No call outlives its context by more than the node timeout, and no error is one of the protocol.
//   - After any trouble every Locker uses all servers again.
func TestTenants_NothingThatOthersDoBreaksAPromise(t *testing.T) {
	lasting, seed := 6*time.Second, rand.Uint64()
	var err error
	if text := os.Getenv(lastingVariable); text != "" {
		lasting, err = time.ParseDuration(text)
		require.NoError(t, err, lastingVariable)
	}
	if text := os.Getenv(seedVariable); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, seedVariable)
	}
	w := newWorld(t, seed)
	w.spawn()
	deadline := time.Now().Add(lasting)
	for episode := 0; episode < 2 || time.Now().Before(deadline) && w.ctx.Err() == nil; episode++ {
		w.episode(episode)
		w.sample()
	}
	w.end()
}
