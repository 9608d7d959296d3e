package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/contention"
	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	// hotName is the lock that everybody wants.
	hotName = "bench"
	// hotWaiters is how many goroutines want it.
	hotWaiters = 16
	// hotProcesses is how many processes these are divided among in D.
	hotProcesses = 8
	// contendedTime is that of one iteration: -benchtime 10x is 2 s.
	contendedTime = 200 * time.Millisecond
)

// hot are those that C and D compare, where quorumlock can also hand the lock off in memory.
var hot = subject.Named("quorumlock", "quorumlock-handoff", "quorumlock-handoff-fenced", "redsync", "redsync-failfast", "redsync-goredis")

// BenchmarkC_Contended is 16 goroutines of one process that want the same lock, and give it back at once: how often they
// get it (acquisitions/s), how long they wait (p50-ms, p99-ms, max-ms) and how differently: the least and the most
// of the waiters' percentiles, and how many times as often the luckiest gets it as the unluckiest
// (most/least-goroutine). ns/op says nothing.
func BenchmarkC_Contended(b *testing.B) {
	each(b, hot, 5, func(b *testing.B, s subject.Subject, servers []*testredis.Process) {
		contended(b, s, empty(b, servers))
	})
}

// BenchmarkD_Processes is C with 8 processes of 2 goroutines; most/least-process is the luck of the processes.
func BenchmarkD_Processes(b *testing.B) {
	each(b, hot, 5, func(b *testing.B, s subject.Subject, servers []*testredis.Process) {
		processes(b, s, empty(b, servers), hotProcesses, hotWaiters, hotName)
	})
}

// contended is the waiters of one process.
func contended(b *testing.B, s subject.Subject, addrs []string) {
	client := openAt(b, s, addrs, hotWaiters, ampleTimeout)
	crew, err := contention.NewCrew(client, []string{hotName}, hotWaiters, contention.NewGuard(1), 1)
	require.NoError(b, err)
	require.NoError(b, crew.WarmUp(ctx))
	crew.Start(ctx)
	pass(b, contendedTime)
	shift, err := crew.Stop()
	require.NoError(b, err)
	report(b, contention.Result{shift})
}

// processes divides the waiters among some processes, and all of them among the names.
func processes(b *testing.B, s subject.Subject, addrs []string, n, waiters int, names ...string) {
	setup := subject.Setup{Addrs: addrs, Callers: waiters / n, Timeout: ampleTimeout}
	fleet, err := contention.Launch(ctx, contention.Plan{Subject: s.Name, Setup: setup, Names: names, Processes: n})
	require.NoError(b, err)
	defer func() { assert.NoError(b, fleet.Close()) }()
	require.NoError(b, fleet.Start())
	pass(b, contendedTime)
	result, err := fleet.Stop()
	require.NoError(b, err)
	report(b, result)
	b.ReportMetric(result.LuckOfProcesses(), "most/least-process")
}

// pass lets the benchmark's time pass, so much in each iteration.
func pass(b *testing.B, d time.Duration) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for b.Loop() {
		<-tick.C
	}
}

func report(b *testing.B, r contention.Result) {
	all := r.Waits()
	for _, percentile := range []struct {
		name string
		at   float64
	}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"max", 100}} {
		least, most := r.Range(percentile.at)
		b.ReportMetric(milliseconds(all.At(percentile.at)), fmt.Sprintf("%s-ms", percentile.name))
		b.ReportMetric(milliseconds(least), fmt.Sprintf("%s-least-ms", percentile.name))
		b.ReportMetric(milliseconds(most), fmt.Sprintf("%s-most-ms", percentile.name))
	}
	b.ReportMetric(r.Rate(), "acquisitions/s")
	b.ReportMetric(r.LuckOfWaiters(), "most/least-goroutine")
}
