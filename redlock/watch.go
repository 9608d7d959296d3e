package redlock

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"
)

// How long Watch waits for a change to be told of before it looks by itself: for as long as it can be told of, and while it cannot.
const (
	watchEvery = 30 * time.Second
	watchOften = time.Second
)

// Watch yields what [Locker.Inspect] returns, at once and whenever it has changed: who holds the lock, or shares it, whether somebody does,
// or whether that is known. Renewals, and what is only on a minority of the nodes, are no change. It changes nothing.
//
// The nodes push changes, so that one is yielded within about two round trips. It looks each second while one may be missed: if a node
// answers that cannot push, if the verdict is [VerdictUnknown], and if the lock is shared, as no key changes with each who shares it.
// Otherwise it looks each 30 seconds, and when the TTL of the holder is over. Of changes that follow each other closely, or while the
// program is busy with one, the last is yielded.
//
// The error is that of Inspect, with the LockState beside it: after [ErrNoQuorum] it goes on. It ends when ctx ends, without a word, and
// after [ErrInvalid] and [ErrClosed], which come without a LockState.
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
			if state.TTL > 0 {
				most = min(most, state.TTL)
			}
			l.pause(ctx, most, changed)
		}
	}
}

// pushed reports whether the nodes push whatever changes what they have answered.
func (l *Locker) pushed(s *LockState) bool {
	for i, n := range s.Nodes {
		if n.Err == nil && !l.engine.Pushes(i) {
			return false
		}
	}
	return s.Verdict != VerdictUnknown && !s.Kind.several()
}

// pause waits until it is told of a change, for so long at most, and no longer than ctx and the Locker.
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

// differs reports whether who holds the lock is not the same.
func (s *LockState) differs(o *LockState) bool {
	same := func(a, b Sharer) bool { return a.Token == b.Token && a.Slot == b.Slot }
	return s.Verdict != o.Verdict || s.Kind != o.Kind || s.Token != o.Token || s.Fence != o.Fence || s.WriterWaits != o.WriterWaits ||
		!slices.EqualFunc(s.sorted(), o.sorted(), same)
}

// sorted are the Sharers, whose order changes with renewals.
func (s *LockState) sorted() []Sharer {
	return slices.SortedFunc(slices.Values(s.Sharers), func(a, b Sharer) int { return strings.Compare(a.Token, b.Token) })
}
