package bench_test

import (
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

var (
	ofFive = subject.Named("floor", "quorumlock", "redsync", "redsync-failfast", "redsync-goredis")
	ofOne  = subject.Named("floor", "quorumlock", "redsync", "bsm-redislock")
	// taking are those that A compares on five nodes.
	taking = slices.Insert(slices.Clone(ofFive), 2, subject.Named("quorumlock-lock")...)
)

// BenchmarkA_Acquire is one caller: how long it waits for a lock (p50-µs, p99-µs). ns/op is the release as well.
func BenchmarkA_Acquire(b *testing.B) {
	each(b, taking, 5, acquires)
	each(b, ofOne, 1, acquires)
}

// BenchmarkI_Nodes is A over the number of nodes.
func BenchmarkI_Nodes(b *testing.B) {
	for _, nodes := range []int{1, 3, 5, 7, 9} {
		each(b, subject.Named("floor", "quorumlock"), nodes, acquires)
	}
}

func acquires(b *testing.B, s subject.Subject, servers []*testredis.Process) {
	caller := open(b, s, servers, 1, ampleTimeout).Caller("bench")
	warm(b, caller, 100)
	times, made := newLatencies(), tally{}
	for b.Loop() {
		made.add(times.acquire(caller))
	}
	times.report(b)
	made.report(b)
}
