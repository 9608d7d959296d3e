package bench_test

import (
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	// crowdWaiters is how many goroutines there are in R, ten for each name.
	crowdWaiters = 1000
	crowdNames   = 100
	// crowdProcesses is how many processes these are divided among, so that each name has waiters in all of them.
	crowdProcesses = 4
)

// waitingInCrowd are those that R compares.
var waitingInCrowd = subject.Named("quorumlock", "quorumlock-handoff", "redsync")

// BenchmarkR_Crowd is 4 processes of 250 goroutines that want 100 locks, each of them always the same one, as in D.
func BenchmarkR_Crowd(b *testing.B) {
	names := make([]string, crowdNames)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", hotName, i)
	}
	each(b, waitingInCrowd, 5, func(b *testing.B, s subject.Subject, servers []*testredis.Process) {
		processes(b, s, empty(b, servers), crowdProcesses, crowdWaiters, names...)
	})
}
