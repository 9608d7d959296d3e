package bench_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/relay"
	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	// oneWay is how long it takes to a far node, and as long again from there.
	oneWay = time.Millisecond
	// pings is how many round trips are measured beforehand.
	pings = 25
)

// waitingFar are those that P and Q compare.
var waitingFar = subject.Named("quorumlock", "quorumlock-handoff", "quorumlock-handoff-10ms", "redsync")

// BenchmarkP_FarContended is C with nodes that are 1 ms away in each direction. round-trip-ms is the median of pings
// beforehand, when nothing else goes on.
func BenchmarkP_FarContended(b *testing.B) {
	eachFar(b, contended)
}

// BenchmarkQ_FarProcesses is D with such nodes.
func BenchmarkQ_FarProcesses(b *testing.B) {
	eachFar(b, func(b *testing.B, s subject.Subject, addrs []string) {
		processes(b, s, addrs, hotProcesses, hotWaiters, hotName)
	})
}

// eachFar runs the benchmark with one subject after the other on the same servers, each through a relay of its own.
func eachFar(b *testing.B, run func(b *testing.B, s subject.Subject, addrs []string)) {
	servers := testredis.Real(b, 5)
	for _, s := range waitingFar {
		b.Run(fmt.Sprintf("subject=%s/nodes=%d/oneway=%s", s.Name, len(servers), oneWay), func(b *testing.B) {
			between, err := relay.Launch(ctx, empty(b, servers), oneWay)
			require.NoError(b, err)
			b.Cleanup(func() { assert.NoError(b, between.Close()) }) // after the client
			trip := roundTrip(b, between.Addrs()[0])
			run(b, s, between.Addrs())
			b.ReportMetric(milliseconds(trip), "round-trip-ms")
		})
	}
}

// roundTrip is the median of some pings, one after the other.
func roundTrip(b *testing.B, addr string) time.Duration {
	conn, err := redis.Dial("tcp", addr)
	require.NoError(b, err)
	defer conn.Close()
	trips := make([]time.Duration, pings)
	for i := range trips {
		begin := time.Now()
		_, err := conn.Do("PING")
		require.NoError(b, err)
		trips[i] = time.Since(begin)
	}
	slices.Sort(trips)
	return trips[pings/2]
}
