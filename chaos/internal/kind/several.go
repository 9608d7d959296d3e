package kind

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/client"
	"github.com/quorumlock/quorumlock/redlock"
)

// several is how workers take the locks of several names at once, beside others who take one of them.
type several struct{ lease }

func (s several) turn(ctx context.Context, w *client.Worker, name string) {
	if w.OneIn(3) {
		s.lease.turn(ctx, w, name)
		return
	}
	names, call := w.Others(name, 2+w.Dice.IntN(2)), client.Call{TTL: w.TTL(), Renews: w.OneIn(2)}
	if w.OneIn(8) {
		call.Options = append(call.Options, redlock.Grace(call.TTL/8))
	}
	try := w.OneIn(3)
	if !try && w.OneIn(3) {
		call.Options = append(call.Options, redlock.MaxWait(time.Duration(w.Dice.Int64N(int64(2*time.Second)))))
	}
	holds := w.AcquireAll(ctx, names, call, try)
	if holds == nil {
		return
	}
	inner := ctx
	for _, h := range holds {
		var cancel context.CancelFunc
		inner, cancel = h.Context(inner)
		defer cancel()
	}
	for range 1 + w.Dice.IntN(2) {
		s.rely(inner, w, holds[w.Dice.IntN(len(holds))], call)
	}
	for _, h := range holds {
		w.Prove(h)
		if !w.OneIn(20) { // else it ends by itself, or with the process
			w.Unlock(context.WithoutCancel(ctx), h)
		} else if call.Renews {
			w.Detach(context.WithoutCancel(ctx), h)
		}
	}
}
