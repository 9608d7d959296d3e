package pictures

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/redlock/event"
)

// record is what has happened, in the order in which it was reported: events of Lockers, and of nodes.
type record struct {
	mu      sync.Mutex
	entries []entry
	changed chan struct{} // closed at the next entry
}

type entry struct {
	who   string
	event any
}

// keyEvent is a change of the key of the lock on a node, as the server announces it to its operator (keyspace
// notifications).
type keyEvent struct {
	At   time.Time
	Node int
	What string // "set", "del", "expire", "expired"
}

func newRecord() *record { return &record{changed: make(chan struct{})} }

func (r *record) add(who string, event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, entry{who, event})
	close(r.changed)
	r.changed = make(chan struct{})
}

// observer returns what records the events of a Locker: as those of who, or of warming for the other lock.
func (r *record) observer(who string) event.Observer {
	return event.ObserverFunc(func(e event.Event) {
		if vote, ok := e.(event.Vote); ok && vote.Name == warmName {
			r.add(warming+who, e)
			return
		}
		if nameOf(e) != warmName {
			r.add(who, e)
		}
	})
}

// nameOf returns the name of the lock that an event is about, if it is one that a warm-up has too.
func nameOf(e event.Event) string {
	switch e := e.(type) {
	case event.Round:
		return e.Name
	case event.Acquire:
		return e.Name
	case event.Unlock:
		return e.Name
	case event.End:
		return e.Name
	}
	return ""
}

// find returns the events of a type that somebody has reported so far and that are wanted.
func find[E any](r *record, who string, wanted func(E) bool) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	return findLocked(r, who, wanted)
}

func findLocked[E any](r *record, who string, wanted func(E) bool) (found []E) {
	for _, x := range r.entries {
		if e, ok := x.event.(E); ok && x.who == who && (wanted == nil || wanted(e)) {
			found = append(found, e)
		}
	}
	return found
}

// await returns n events as find does, as soon as there are so many.
func await[E any](ctx context.Context, r *record, who string, n int, wanted func(E) bool) ([]E, error) {
	for {
		r.mu.Lock()
		found, changed := findLocked(r, who, wanted), r.changed
		r.mu.Unlock()
		if len(found) >= n {
			return found[:n], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			var e E
			return nil, fmt.Errorf("%d of %d %T of %s: %w", len(found), n, e, who, ctx.Err())
		}
	}
}

// index returns the place of the first wanted event in the record, or -1.
func index[E any](r *record, who string, wanted func(E) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.IndexFunc(r.entries, func(x entry) bool {
		e, ok := x.event.(E)
		return ok && x.who == who && (wanted == nil || wanted(e))
	})
}

// pause waits for d, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
