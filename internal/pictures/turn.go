package pictures

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// calls are the calls of Lock that two programs make, in the order in which they get the lock.
var calls = []struct{ who, name string }{
	{"P", "P, call 1"}, {"P", "P, call 2"}, {"P", "P, call 3"}, {"Q", "Q, call 1"}, {"Q", "Q, call 2"},
}

// turn is a lock for which calls of two programs wait. Each program has a Locker and connections of its own.
func turn(ctx context.Context) (_ *Timeline, err error) {
	const work = 60 * time.Millisecond
	c, err := startNodes(ctx, 3)
	if err != nil {
		return nil, err
	}
	defer c.close()
	lockers := map[string]*redlock.Locker{}
	for _, who := range []string{"P", "Q"} {
		if lockers[who], err = c.locker(ctx, who, time.Second, slices.Repeat([]time.Duration{10 * time.Millisecond}, 3)); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	failures := make(chan error, len(calls))
	first := make(chan struct{}) // closed when the first call has the lock
	for i, call := range calls {
		// The calls begin one after the other, so that the order of the waiters of a program is that of the calls.
		running.Go(func() {
			failures <- func() error {
				ctx := context.WithValue(ctx, callKey{}, i)
				lock, err := lockers[call.who].Lock(ctx, lockName)
				if err != nil {
					return err
				}
				if i == 0 {
					close(first)
					if err := pause(ctx, 2*work); err != nil { // until all others wait, and have said so
						return err
					}
				}
				return errors.Join(pause(ctx, work), lock.Unlock(ctx))
			}()
		})
		if i == 0 {
			select {
			case <-first:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
	for range calls {
		if err := <-failures; err != nil {
			cancel()
			return nil, err
		}
	}
	return c.turns(ctx)
}

// callKey is the key of the context of a call whose value is its index in calls.
type callKey struct{}

// turns draws what has happened to the calls.
func (c *nodes) turns(ctx context.Context) (*Timeline, error) {
	start := time.Time{}
	p := Panel{}
	got, freed := make([]time.Duration, len(calls)), make([]time.Duration, len(calls))
	var claims []claim
	for i, call := range calls {
		acquired, err := await(ctx, c.record, call.who, 1, func(e event.Acquire) bool { return e.Context.Value(callKey{}) == i })
		if err != nil {
			return nil, err
		}
		ended, err := await(ctx, c.record, call.who, 1, func(e event.End) bool { return e.Call == acquired[0].Call })
		if err != nil {
			return nil, err
		}
		if i == 0 {
			start = acquired[0].Start
		}
		released, err := await(ctx, c.record, call.who, 1, func(e event.Unlock) bool { return e.Context.Value(callKey{}) == i })
		if err != nil {
			return nil, err
		}
		got[i], freed[i] = ended[0].Start.Sub(start), released[0].Start.Sub(start) // Unlock ends the hold at once
		class := map[string]string{"P": "a", "Q": "b"}[call.who]
		p.Lanes = append(p.Lanes, Lane{Name: call.name, Bands: []Band{
			{Class: "wait", From: acquired[0].Start.Sub(start), To: got[i]}, {Class: class, From: got[i], To: freed[i]},
		}})
		p.Until = max(p.Until, freed[i]+20*time.Millisecond)
		claims = append(claims,
			claim{errors.Is(ended[0].Err, redlock.ErrReleased), call.name + " releases the lock"},
			claim{i == 0 || freed[i-1] < got[i], call.name + " has its turn after the call before it"})
	}
	sent := find(c.record, "P", func(e event.Turn) bool { return !e.Received })
	received, err := await(ctx, c.record, "Q", 1, func(e event.Turn) bool { return e.Received })
	if err != nil || len(sent) == 0 {
		return nil, errors.Join(errOtherwise, err)
	}
	turn := slices.IndexFunc(calls, func(call struct{ who, name string }) bool { return call.who == "Q" })
	message := Arrow{turn - 1, turn, sent[0].At.Sub(start), received[0].At.Sub(start)}
	p.Arrows = []Arrow{message}
	p.Rules = []Rule{{message.Sent, "P passes the turn to Q"}}
	claims = append(claims,
		claim{len(sent) == 1, "the turn passes once"},
		claim{freed[turn-1] < message.Sent && message.Sent < got[turn], "P passes the turn before Q has it"},
		claim{message.Got < got[turn], "Q has the lock after the message"})
	gap := func(i int) int64 { return (got[i] - freed[i-1]).Milliseconds() }
	p.Lanes[1].Marks = []Mark{{"", got[1], fmt.Sprintf("%d ms after the release", gap(1))}}
	p.Lanes[turn].Marks = []Mark{{"", got[turn], fmt.Sprintf("%d ms after the release", gap(turn))}}
	return &Timeline{
		Title: "A turn that passes to another process",
		Description: "Five lanes over an axis of time, for three calls of Lock in the program P and two in the program Q. " +
			"One call holds the lock and the others wait. In P the release and the next call's acquire travel together. " +
			"When no call of P waits any more, P sends Q a message with its release, and the calls of Q have their turn.",
		Panels: []Panel{p},
		Legend: []Sample{{"wait", "waits in Lock"}, {"a", "a call of P holds the lock"}, {"b", "a call of Q does"}, {"arrow", "message: your turn"}},
	}, show(claims...)
}
