package bench_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	// ampleTimeout is for benchmarks in which every node answers, on a machine however busy.
	ampleTimeout = 5 * time.Second
	// manyCallers is how many goroutines there are in the benchmarks of throughput.
	manyCallers = 64
)

var ctx = context.Background()

// open connects a subject to the servers, which are emptied: what is left of the subject before must not be in its
// way. The client ends with the benchmark or test.
func open(tb testing.TB, s subject.Subject, servers []*testredis.Process, callers int, timeout time.Duration) subject.Client {
	tb.Helper()
	return openAt(tb, s, empty(tb, servers), callers, timeout)
}

// openAt does the same with servers that are empty, by addresses that may be those of a relay.
func openAt(tb testing.TB, s subject.Subject, addrs []string, callers int, timeout time.Duration) subject.Client {
	tb.Helper()
	client, err := s.Open(subject.Setup{Addrs: addrs, Callers: callers, Timeout: timeout})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, client.Close()) })
	return client
}

// empty returns the addresses of servers that hold nothing any more.
func empty(tb testing.TB, servers []*testredis.Process) []string {
	tb.Helper()
	addrs := make([]string, len(servers))
	for i, server := range servers {
		addrs[i] = server.Addr()
		_, err := server.Do("FLUSHALL")
		require.NoError(tb, err)
	}
	return addrs
}

// doer carries out commands on a server.
type doer interface {
	Do(command string, args ...any) (any, error)
}

// commandCalls returns how many times a command was carried out on all servers.
func commandCalls[S doer](b *testing.B, servers []S, command string) (n int) {
	b.Helper()
	of := regexp.MustCompile(`(?m)^cmdstat_` + command + `:calls=(\d+),`)
	for _, server := range servers {
		info, err := redis.String(server.Do("INFO", "commandstats"))
		require.NoError(b, err)
		if calls := of.FindStringSubmatch(info); calls != nil {
			here, err := strconv.Atoi(calls[1])
			require.NoError(b, err)
			n += here
		}
	}
	return n
}

// cycle takes and gives back a lock once.
func cycle(c subject.Caller) error {
	if err := c.Acquire(ctx); err != nil {
		return err
	}
	return c.Release(ctx)
}

// warm makes n cycles, which connect and fill pools. A subject that does not wait for its releases may meet one in the next cycle.
func warm(tb testing.TB, c subject.Caller, n int) {
	tb.Helper()
	for spare := n; n > 0; {
		if err := cycle(c); err != nil {
			spare--
			require.Positive(tb, spare, err)
			continue
		}
		n--
	}
}

// each runs the benchmark with one subject after the other on the same servers.
func each(b *testing.B, subjects []subject.Subject, nodes int, run func(*testing.B, subject.Subject, []*testredis.Process)) {
	servers := testredis.Real(b, nodes)
	for _, s := range subjects {
		b.Run(fmt.Sprintf("subject=%s/nodes=%d", s.Name, nodes), func(b *testing.B) { run(b, s, servers) })
	}
}

// latencies are how long each acquire took.
type latencies []time.Duration

func newLatencies() latencies { return make(latencies, 0, 1<<17) }

// acquire makes one cycle and takes the time of its first half.
func (l *latencies) acquire(c subject.Caller) error {
	begin := time.Now()
	err := c.Acquire(ctx)
	*l = append(*l, time.Since(begin))
	if err != nil {
		return err
	}
	return c.Release(ctx)
}

func (l latencies) report(b *testing.B) {
	for _, percent := range []int{50, 99} {
		b.ReportMetric(l.percentile(percent), fmt.Sprintf("p%d-µs", percent))
	}
}

// percentile is in microseconds.
func (l latencies) percentile(percent int) float64 {
	slices.Sort(l)
	return float64(l[(len(l)-1)*percent/100]) / float64(time.Microsecond)
}
