package kind

import (
	"context"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/client"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/redlock"
)

// jobs is how workers take several names at once, or one of them, while a job keeps the last of the names for seconds.
func jobs(ctx context.Context, w *client.Worker, name string) {
	call := client.Call{Way: history.Waiting, TTL: w.Shortest(), Renews: true}
	last := strings.TrimRight(name, "0123456789") + "3"
	switch w.Role(5) {
	case 0:
		limited, cancel := context.WithCancel(ctx)
		if !w.OneIn(4) {
			limited, cancel = context.WithTimeout(ctx, time.Duration(w.Dice.Int64N(int64(8*time.Second))))
		}
		defer cancel()
		for _, h := range w.AcquireAll(limited, w.Others(name, 2+w.Dice.IntN(3)), call, false) {
			w.Prove(h)
			w.Unlock(context.WithoutCancel(ctx), h)
		}
	case 1:
		steps := 1
		if w.OneIn(4) {
			steps = 1 + w.Dice.IntN(100)
		}
		brieflyHeld(ctx, w, last, call, steps, 200*time.Millisecond)
	default:
		if name != last {
			brieflyHeld(ctx, w, name, call, 1, 10*time.Millisecond)
		}
	}
}

// crowd is how workers take a name for reading beside few that write, or slots beside few that know of fewer slots.
func crowd(ctx context.Context, w *client.Worker, name string) {
	call := client.Call{Way: history.Waiting, TTL: w.Shortest(), Renews: true, Reads: true}
	if strings.HasSuffix(name, "-1") {
		call.Reads, call.Slots = false, 4
	}
	switch {
	case !w.OneIn(20):
	case call.Slots > 0:
		call.Slots = 1
	default:
		call.Reads = false
		if w.OneIn(2) {
			call.Options = append(call.Options, redlock.MaxWait(100*time.Millisecond))
		}
	}
	brieflyHeld(ctx, w, name, call, 3, 50*time.Millisecond)
}

// brieflyHeld takes a lock, relies on it for some steps, and releases it.
func brieflyHeld(ctx context.Context, w *client.Worker, name string, call client.Call, steps int, step time.Duration) {
	h := w.Acquire(ctx, name, call)
	if h == nil {
		return
	}
	for range steps {
		if !w.Prove(h) || ctx.Err() != nil {
			break
		}
		w.Wait(ctx, step)
	}
	w.Unlock(context.WithoutCancel(ctx), h)
}
