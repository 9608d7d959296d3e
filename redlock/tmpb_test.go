package redlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestTmpRate(t *testing.T) {
	c := onReal(t, 5)
	run := func(what string, do func(l *redlock.Locker) error, lockers int) {
		var n, in, most atomic.Int32
		var all sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		ls := []*redlock.Locker{}
		for range lockers {
			ls = append(ls, c.locker())
		}
		_ = ctx
		for i := range 64 {
			all.Go(func() {
				for ctx.Err() == nil {
					if err := do(ls[i%lockers]); err != nil {
						t.Error(err)
						return
					}
					n.Add(1)
				}
			})
		}
		all.Wait()
		t.Log(what, lockers, n.Load(), in.Load(), most.Load())
	}
	for _, k := range []int{1, 4} {
		run("plain", func(l *redlock.Locker) error {
			return l.Do(context.Background(), "plain", func(context.Context, *redlock.Lock) error { pass(5 * time.Millisecond); return nil })
		}, k)
		var in, most atomic.Int32
		run("permits", func(l *redlock.Locker) error {
			return l.DoLimited(context.Background(), "permits", 10, func(context.Context, *redlock.Lock) error {
				now := in.Add(1)
				for b := most.Load(); now > b && !most.CompareAndSwap(b, now); b = most.Load() {
				}
				pass(5 * time.Millisecond)
				in.Add(-1)
				return nil
			})
		}, k)
		t.Log("most", most.Load())
	}
}
