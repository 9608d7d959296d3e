package survey_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/token"
)

// fill sets locks under the prefix lock: on all servers, and other keys beside them.
func fill(tb testing.TB, servers []*testredis.Process, locks, others int) {
	tb.Helper()
	const script = `
		for i = 1, ARGV[1] do redis.call('SET', 'lock:job-' .. i, ARGV[3], 'PX', 3600000 + i) end
		for i = 1, ARGV[2] do redis.call('SET', 'cache:' .. i, 'value ' .. i) end`
	held := token.WithMetadata(token.Random(token.NewOwner()), "web1:4711")
	for _, s := range servers {
		_, err := s.Do("EVAL", script, 0, locks, others, held)
		require.NoError(tb, err)
	}
}

// A server carries out one command at a time, so that a long one holds up all locks. SLOWLOG counts the time, too, during which
// the machine ran something else: only a command that is in it after each listing takes so long itself.
func TestList_HoldsNoServerUp(t *testing.T) {
	processes := testredis.Real(t, 5)
	fill(t, processes, 10_000, 100_000)
	do(t, processes, "CONFIG", "SET", "slowlog-max-len", 100_000)
	do(t, processes, "CONFIG", "SET", "slowlog-log-slower-than", 5000)
	always := make([]map[string]bool, len(processes)) // the commands that were slow each time, of each server
	slow := len(processes)
	for runs := 0; slow > 0 && runs < 20; runs++ {
		do(t, processes, "SLOWLOG", "RESET")
		listing, err := survey.List(t.Context(), servers(t, processes), survey.Options{Prefix: "lock:"})
		require.NoError(t, err)
		require.Len(t, listing.Locks, 10_000)
		slow = 0
		for i, s := range processes {
			require.Equal(t, 10_000, listing.Nodes[i].Keys)
			always[i] = slowCommands(t, s, always[i])
			slow += min(1, len(always[i]))
		}
	}
	require.Zero(t, slow, "commands that take more than 5 ms: %v", always)
}

// slowCommands returns the commands in the SLOWLOG of a server, only those that are among others unless that is nil.
func slowCommands(t *testing.T, s *testredis.Process, among map[string]bool) map[string]bool {
	t.Helper()
	entries, err := redis.Values(s.Do("SLOWLOG", "GET", -1))
	require.NoError(t, err)
	slow := map[string]bool{}
	for _, entry := range entries {
		parts, err := redis.Values(entry, nil)
		require.NoError(t, err)
		words, err := redis.Strings(parts[3], nil)
		require.NoError(t, err)
		if command := fmt.Sprintf("%q", words); among == nil || among[command] {
			slow[command] = true
		}
	}
	return slow
}

// BenchmarkList lists 10,000 locks on five servers, beside 100,000 other keys. scan-µs is how long a server needs for a page,
// on average.
func BenchmarkList(b *testing.B) {
	processes := testredis.Real(b, 5)
	fill(b, processes, 10_000, 100_000)
	to := servers(b, processes)
	for b.Loop() {
		listing, err := survey.List(b.Context(), to, survey.Options{Prefix: "lock:"})
		require.NoError(b, err)
		require.Len(b, listing.Locks, 10_000)
	}
	stats, err := redis.String(processes[0].Do("INFO", "commandstats"))
	require.NoError(b, err)
	scan := regexp.MustCompile(`cmdstat_scan:.*usec_per_call=([0-9.]+)`).FindStringSubmatch(stats)
	require.NotNil(b, scan)
	each, err := strconv.ParseFloat(scan[1], 64)
	require.NoError(b, err)
	b.ReportMetric(each, "scan-µs")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
