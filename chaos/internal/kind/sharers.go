package kind

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/client"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/redlock"
)

// sharers is how workers read under shared locks, or in slots, beside others who write.
type sharers struct{ lease }

// slotsOf returns how many slots a name has: 2 or 3; 0 if its locks have none.
func (l lease) slotsOf(name string) int {
	if !l.slots {
		return 0
	}
	return 2 + int(name[len(name)-1])%2
}

func (s sharers) turn(ctx context.Context, w *client.Worker, name string) {
	if s.read && w.OneIn(3) || w.OneIn(10) {
		s.lease.turn(ctx, w, name)
		return
	}
	call := client.Call{Way: history.Waiting, TTL: w.TTL(), Renews: w.OneIn(2), Reads: s.read, Slots: s.slotsOf(name)}
	if s.slots && w.OneIn(6) {
		if h := w.Attach(ctx, name, call); h != nil {
			s.hold(ctx, w, h, call)
			return
		}
	}
	if w.OneIn(8) {
		call.Options = append(call.Options, redlock.Grace(call.TTL/8))
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	switch way := w.Dice.IntN(10); {
	case way < 3:
		call.Way = history.Trying
	case way < 5:
		call.Options = append(call.Options, redlock.MaxWait(time.Duration(w.Dice.Int64N(int64(time.Second)))))
	case way < 7:
		limited, cancel = context.WithTimeout(ctx, time.Duration(w.Dice.Int64N(int64(3*time.Second))))
		defer cancel()
	}
	if call.Way == history.Waiting && w.OneIn(4) {
		w.Do(limited, name, call, func(ctx context.Context, h *client.Hold) { s.share(ctx, w, h, call) })
		return
	}
	h := w.Acquire(limited, name, call)
	switch {
	case h == nil:
	case s.slots:
		s.hold(ctx, w, h, call)
	default:
		inner, cancel := h.Context(ctx)
		defer cancel()
		s.share(inner, w, h, call)
		if call.Renews || !w.OneIn(100) { // else it ends by itself, or with the process
			w.Unlock(context.WithoutCancel(ctx), h)
		}
	}
}

// share reads under a lock for a while: mostly short, sometimes for longer than its TTL.
func (l lease) share(ctx context.Context, w *client.Worker, h *client.Hold, call client.Call) {
	steps, step := 1+w.Dice.IntN(3), 20*time.Millisecond
	switch dice := w.Dice.IntN(400); { // seldom, as a writer waits for the last of many, and others behind it
	case dice == 0:
		steps, step = 10, call.TTL/5
	case dice < 8:
		steps, step = 5, 100*time.Millisecond
	}
	for range steps {
		if !w.Prove(h) || ctx.Err() != nil {
			return
		}
		switch w.Dice.IntN(6) {
		case 0, 1:
			w.Read(ctx, h.Name(), [...]string{history.Redis, history.Postgres, history.Plain}[w.Dice.IntN(3)], h.ID)
		case 2:
			if w.OneIn(3) {
				w.Extend(ctx, h, max(call.TTL, w.TTL()))
			}
		case 3:
			if w.OneIn(4) {
				l.again(ctx, w, h)
			}
		}
		w.Wait(ctx, step)
		w.Prove(h)
	}
}
