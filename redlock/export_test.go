package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	tokens "github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// WithWallClock sets the clock that proposals to counters come from.
func WithWallClock(now func() time.Time) Option {
	return option(func(c *config) { c.settings.Wall = now })
}

// ValidUntil returns the deadline of a lock.
func (l *Lock) ValidUntil() time.Time {
	l.held.Enter()
	defer l.held.Exit()
	return l.held.Lease.Deadline()
}

// Message reports to a Locker what somebody has published on its channel of a node.
func (l *Locker) Message(node int, text string) { l.engine.Message(node, text) }

// Emit reports an event.
func (l *Locker) Emit(e event.Event) { l.events.emit(e) }

// Drain waits until the Observer has had the events so far.
func (l *Locker) Drain() { l.events.drain(context.Background()) }

// Self returns the owner part of a Locker's tokens.
func (l *Locker) Self() string { return l.engine.Self }

// Parse splits what a node holds into token and fencing token, and the token into owner part and metadata.
func (l *Locker) Parse(value string) (token string, fence uint64, owner, metadata string) {
	var f form.Form = form.Exclusive{}
	if l.engine.Fencing {
		f = new(form.Fenced)
	}
	o := f.Shows(&wire.Reply{Value: value})
	return o.Token, o.Fence, tokens.Owner(o.Token), tokens.Metadata(o.Token)
}

// Remembers reports whether a Locker remembers a name.
func Remembers(l *Locker, key string) bool {
	e := l.engine.Find(key)
	if e != nil {
		e.Exit()
	}
	return e != nil
}

// DiscardIdle makes a Locker forget the names that it need not remember, as many others come.
func DiscardIdle(l *Locker) {
	for i := range 4096 {
		l.engine.Enter(fmt.Sprint("idle-", i)).Exit()
	}
}

// Waiting returns how many calls wait for a key.
func Waiting(l *Locker, key string) int {
	e := l.engine.Find(key)
	if e == nil {
		return 0
	}
	defer e.Exit()
	return len(e.Name.Waiting())
}

// Block makes a lock ask for so many fencing tokens.
func Block(n uint64) LockOption { return lockOption(func(r *request) { r.block = n }) }

// ToRenew returns how many locks a Locker is going to renew.
func ToRenew(l *Locker) int { return l.engine.Renewals() }

// BlockedNames returns how many blocked names a Locker remembers.
func BlockedNames(l *Locker) int {
	l.throttle.mu.Lock()
	defer l.throttle.mu.Unlock()
	return len(l.throttle.logged)
}

// Waiter is a call of Lock that has not looked for its turn: its goroutine stands still at the worst moment.
type Waiter struct{ waiter *waiter }

// Join has a call wait for a name.
func Join(l *Locker, name string, opts ...LockOption) (Waiter, error) {
	var req request
	err := l.request(&req, name, opts)
	e := l.engine.Enter(req.key)
	defer e.Exit()
	return Waiter{l.joinLocked(context.Background(), e, &req)}, err
}

// HasOffer reports whether the call was woken for what it has not looked at.
func (w Waiter) HasOffer() bool { return len(w.waiter.Woken) > 0 }

// GiveUp goes on with the call when ctx has ended, and returns what Lock returns.
func (w Waiter) GiveUp(ctx context.Context) (*Lock, error) { return w.waiter.look(ctx) }

// Sees reports whether the waiters for a key have seen who holds it.
func Sees(l *Locker, key string) bool {
	e := l.engine.Find(key)
	if e == nil {
		return false
	}
	defer e.Exit()
	for i := range l.engine.Nodes {
		if o, _ := e.Name.Observation(i); o.Exists {
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

// WithForm sets what the locks are on the servers.
func WithForm(f form.Form) Option { return option(func(c *config) { c.settings.Form = f }) }

// LogBlocked makes a Locker count n names as logged because they are blocked.
func LogBlocked(l *Locker, n int) {
	for i := range n {
		l.throttle.logs(fmt.Sprint("blocked-", i), l.engine.Clock.Now())
	}
}

// NewLockState computes a LockState from the states of the nodes.
var NewLockState = newLockState
