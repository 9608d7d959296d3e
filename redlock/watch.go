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
// The nodes push changes, so that one is yielded within about two round trips. While so few of them can do that that one may be missed,
// it looks each second, and otherwise each 30 seconds, and when the TTL of the holder is over. Of changes that follow each other closely,
// or while the program is busy with one, the last is yielded.
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
			most := watchEvery
			if err != nil || !l.engine.Pushed() {
				most = watchOften
			}
			if state.TTL > 0 {
				most = min(most, state.TTL)
			}
			l.pause(ctx, most, changed)
		}
	}
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
