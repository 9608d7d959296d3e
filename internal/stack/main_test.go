// Package stack_test runs the whole library in memory: redlock, pool and redigo over
// connections that are buffers, to servers that speak Redis's protocol and are made to
// fail, all in the time of a synctest bubble.
//
// It shows what internal/sim, which runs the decisions alone, cannot show: pipelining,
// deadlines, reconnects, late replies, Close, and the end of goroutines.
//
// A seed makes a plan, always the same one; a plan does not always run the same way. Time
// is virtual, but which of two goroutines goes first at one instant is the scheduler's
// choice. A seed that failed may need a few repetitions to fail again:
//
//	go test ./internal/stack -run TestStack_NoPlanBreaksAPromise -seed 17 -count 20
package stack_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var (
	oneSeed = flag.Uint64("seed", 0, "run this plan alone, and print what happened")
	seeds   = flag.Uint64("seeds", sample, "how many plans to run")
	update  = flag.Bool("update", false, "write the corpus again")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
