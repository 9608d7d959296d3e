package redlock

import (
	"context"
	"time"

	tokens "github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// WithWallClock sets the clock that proposals to counters come from.
func WithWallClock(now func() time.Time) Option {
	return option(func(c *config) { c.wall = now })
}

// ValidUntil returns the deadline of a lock.
func (l *Lock) ValidUntil() time.Time {
	l.held.mu.Lock()
	defer l.held.mu.Unlock()
	return l.held.term.Deadline()
}

// Message reports to a Locker what somebody has published on its channel of a node.
func (l *Locker) Message(node int, text string) { l.names.Message(node, text) }

// Emit reports an event.
func (l *Locker) Emit(e event.Event) { l.events.emit(e) }

// Drain waits until the Observer has had the events so far.
func (l *Locker) Drain() { l.events.drain(context.Background()) }

// Self returns the owner part of a Locker's tokens.
func (l *Locker) Self() string { return l.self }

// Parse splits what a node holds into token and fencing token, and the token into owner part and metadata.
func (l *Locker) Parse(value string) (token string, fence uint64, owner, metadata string) {
	seen := l.form.Seen(wire.Reply{Value: value})
	return seen.Token, seen.Number, tokens.Owner(seen.Token), tokens.Metadata(seen.Token)
}

// Entries returns how many names a Locker remembers.
func Entries(l *Locker) (n int) {
	for i := range l.names.shards {
		n += len(l.names.shards[i].all())
	}
	return n
}

// DiscardIdle makes a Locker forget the names that it need not remember.
func DiscardIdle(l *Locker) {
	for i := range l.names.shards {
		l.names.shards[i].discard()
	}
}

// Waiting returns how many calls wait for a key.
func Waiting(l *Locker, key string) int {
	e := l.names.find(key)
	if e == nil {
		return 0
	}
	defer e.mu.Unlock()
	return len(e.name.Waiting())
}

// Block makes a lock ask for so many fencing tokens.
func Block(n uint64) LockOption { return lockOption(func(r *request) { r.block = n }) }

// ToRenew returns how many locks a Locker is going to renew.
func ToRenew(l *Locker) int {
	l.renewals.mu.Lock()
	defer l.renewals.mu.Unlock()
	return len(l.renewals.locks)
}

// BlockedNames returns how many blocked names a Locker remembers.
func BlockedNames(l *Locker) int {
	l.blocked.mu.Lock()
	defer l.blocked.mu.Unlock()
	return len(l.blocked.names)
}

// Waiter is a call of Lock that has not looked for its turn: its goroutine stands still at the worst moment.
type Waiter struct {
	entry  *entry
	waiter *waiter
}

// Join has a call wait for a name.
func Join(l *Locker, name string, opts ...LockOption) (Waiter, error) {
	req, err := l.request(name, opts)
	e, w := l.names.join(context.Background(), req)
	return Waiter{e, w}, err
}

// HasOffer reports whether the call was woken for what it has not looked at.
func (w Waiter) HasOffer() bool { return len(w.waiter.woken) > 0 }

// GiveUp goes on with the call when ctx has ended, and returns what Lock returns.
func (w Waiter) GiveUp(ctx context.Context) (*Lock, error) { return w.entry.look(ctx, w.waiter) }

// Sees reports whether the waiters for a key have seen who holds it.
func Sees(l *Locker, key string) bool {
	e := l.names.find(key)
	if e == nil {
		return false
	}
	defer e.mu.Unlock()
	for i := range l.nodes {
		if seen, _ := e.name.Seen(i); seen.Held {
			return true
		}
	}
	return false
}

// OutagesFree reports whether nobody has the mutex of the outages.
func OutagesFree(l *Locker) bool {
	free := l.outages.mu.TryLock()
	if free {
		l.outages.mu.Unlock()
	}
	return free
}
