package redlock

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"
)

// watchEvery is how long Watch waits for the push of a change before it looks by itself. watchOften takes its place
// while the nodes do not push every change.
const (
	watchEvery = 30 * time.Second
	watchOften = time.Second
)

// Watch yields the result of [Locker.Inspect], and again when the holders, the Verdict or WriterWaits have changed.
// Nodes push changes, which takes about two round trips. Changes that nodes do not push, such as of shared locks and
// slots, take a second.
//
// Watch goes on after [ErrNoQuorum]. It ends with ctx, and after [ErrInvalid] and [ErrClosed] (without a LockState).
func (l *Locker) Watch(ctx context.Context, name string) iter.Seq2[*LockState, error] {
	return func(yield func(*LockState, error) bool) {
		changed, stop := l.engine.Watch(l.prefix + name)
		defer stop()
		var last *LockState
		var lastErr error
		for {
			state, err := l.look(ctx, name, true)
			if ctx.Err() != nil {
				return
			}
			if state == nil || last == nil || (err == nil) != (lastErr == nil) || state.differs(last) {
				if !yield(state, err) || state == nil {
					return
				}
			}
			last, lastErr = state, err
			most := watchOften
			if err == nil && l.pushed(state) {
				most = watchEvery
			}
			if n := len(state.Holders); n > 0 && state.Holders[n-1].TTL > 0 {
				most = min(most, state.Holders[n-1].TTL)
			}
			l.pause(ctx, most, changed)
		}
	}
}

// pushed reports whether the nodes push every change of the state that they have shown.
func (l *Locker) pushed(s *LockState) bool {
	for i, n := range s.Nodes {
		if n.Err == nil && !l.engine.Pushes(i) {
			return false
		}
	}
	return s.Verdict != VerdictUnknown && !s.Kind.several()
}

// pause waits until a change is pushed, but for most at longest, and not after the end of ctx or of the Locker.
func (l *Locker) pause(ctx context.Context, most time.Duration, changed <-chan struct{}) {
	over := make(chan struct{})
	defer l.engine.Clock.AfterFunc(most, func() { close(over) }).Stop()
	select {
	case <-changed:
	case <-over:
	case <-ctx.Done():
	case <-l.engine.Closing().Done():
	}
}

// differs reports whether the two states show other holders, another verdict, or another sign of a writer.
func (s *LockState) differs(o *LockState) bool {
	same := func(a, b Holder) bool { return a.Token == b.Token && a.Fence == b.Fence && a.Slot == b.Slot }
	return s.Verdict != o.Verdict || s.Kind != o.Kind || s.WriterWaits != o.WriterWaits ||
		!slices.EqualFunc(s.sorted(), o.sorted(), same)
}

// sorted returns the Holders in the order of their tokens, because renewals change the order by TTL.
func (s *LockState) sorted() []Holder {
	return slices.SortedFunc(slices.Values(s.Holders), func(a, b Holder) int { return cmp.Compare(a.Token, b.Token) })
}
