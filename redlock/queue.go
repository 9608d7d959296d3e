package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// queue applies what quorum.Queue decides for the waiters of one name.
type queue struct {
	locker *Locker
	key    string

	mu         sync.Mutex
	machine    *quorum.Queue[*waiter]
	holder     *heldLock    // the lock that a waiter of this queue got last, until it is released
	held       time.Time    // when a waiter of this queue last got the lock, or released it
	last       *QuorumError // why the last round was lost; nil means that none was since the lock was won or passed on
	floor      uint64       // the highest number that a lost round was granted since the last that was won
	turnCame   bool         // another process has passed the turn to this one since the last round that was won
	timer      clock.Timer  // for the machine's Tick; nil if it never asked for one
	gone       bool         // the Locker has discarded it
	notice     clock.Timer  // for logWait; nil before a call has waited
	noting     bool         // it is set
	ringLogged time.Time    // see logRingOnce
}

// waiter is a call of Lock that waits.
//
// Its goroutine may read an offer long after it was sent: when the lock that was passed on has expired, the queue was discarded, or
// the call's context has ended. So these rules hold between the queue and the call:
//   - An offer is sent under the queue's mutex, and the next when the call has dealt with the one before: a send never blocks.
//   - With a round the call stays at the head of the queue until it reports what came of the round. With anything else it has left
//     the queue, which may be discarded.
//   - A call that gives up looks for an offer once more, under that mutex. If there is none, it leaves the queue and is sent nothing
//     from then on. Otherwise it takes the offer: a lock is returned, so is a refusal, and a round is stopped and released, unless
//     it was won before.
type waiter struct {
	ctx    context.Context
	since  time.Time
	req    request
	offers chan offer // has room for one
}

// offer is what has come of a wait: one of these.
type offer struct {
	round   *acquireRound // that has been begun for the waiter
	lock    *Lock         // that was passed on to it
	refused *QuorumError  // why the lock cannot become free
}

// wait waits in the queue of a name until it holds the lock.
func (l *Locker) wait(ctx context.Context, req request) (*Lock, error) {
	w := &waiter{ctx: ctx, since: l.clock.Now(), req: req, offers: make(chan offer, 1)}
	q := l.queues.join(w)
	if l.events.logs(slog.LevelWarn) {
		q.noteWait()
	}
	for {
		select {
		case o := <-w.offers:
			lock, err := q.take(ctx, w, o)
			if lock != nil || err != nil {
				return lock, err
			}
		case <-ctx.Done():
			return q.leave(ctx, w, nil)
		case <-l.closing.Done():
			return q.leave(ctx, w, nil)
		}
	}
}

// take waits for the end of w's round. Nothing is returned if it was lost and w waits on.
func (q *queue) take(ctx context.Context, w *waiter, o offer) (*Lock, error) {
	r := o.round
	switch {
	case o.lock != nil:
		return o.lock, nil
	case o.refused != nil:
		return nil, o.refused
	}
	if r.wait(ctx, nil, q.locker.closing.Done()) == quorum.Done {
		lock := q.locker.newLock(r, w.req)
		q.do(func(now time.Time) quorum.Actions {
			q.holder, q.held, q.last, q.floor, q.turnCame = lock.held, now, nil, 0, false
			return q.machine.Won(now, r.Grant())
		})
		return lock, nil
	}
	switch {
	case ctx.Err() != nil || q.locker.closing.Err() != nil:
		return q.leave(ctx, w, r.refusal)
	case r.Outcome() != quorum.Denied && r.refusal.hopeless(q.locker.served.Load()): // the queue finds out for itself what others hold
		q.do(func(now time.Time) quorum.Actions { return q.machine.Leave(now, w) })
		return nil, r.refusal
	}
	next, waits := w.req, false
	defer func() { // also if the source panics
		if !waits {
			q.do(func(now time.Time) quorum.Actions { return q.machine.Leave(now, w) })
		}
	}()
	if err := next.nextToken(); err != nil {
		return nil, failed(event.OpAcquire, w.req.name, err)
	}
	waits = true
	q.do(func(now time.Time) quorum.Actions {
		q.last, q.floor, w.req.token = r.refusal, max(q.floor, r.highest()), next.token
		return q.machine.Lost(now)
	})
	return nil, nil
}

// leave gives up the wait of w, unless it turns out to hold the lock. stopped is what the nodes had answered to its round,
// if one was under way.
func (q *queue) leave(ctx context.Context, w *waiter, stopped *QuorumError) (*Lock, error) {
	if q.locker.events.logs(slog.LevelWarn) {
		q.logRing(w)
	}
	o, refusal := q.quit(w, stopped)
	if refusal == nil {
		return q.take(ctx, w, o)
	}
	return nil, q.locker.refused(ctx, refusal)
}

// quit takes w out of the queue, and returns why it does not hold the lock. If w has been sent an offer meanwhile, that is
// returned, and no refusal.
func (q *queue) quit(w *waiter, stopped *QuorumError) (o offer, refusal *QuorumError) {
	inQueue := q.do(func(now time.Time) quorum.Actions {
		select {
		case o = <-w.offers:
			return quorum.Actions{}
		default:
		}
		refusal = q.lastLocked(now, w, stopped)
		return q.machine.Leave(now, w)
	})
	if !inQueue { // a queue with waiters is not discarded: w was sent an offer before
		o = <-w.offers
	}
	return o, refusal
}

// lastLocked returns why w does not hold the lock, never nil: the last round that came to an end; that others had the lock while w
// waited, as far as that is known; or the round that was stopped, as far as it went. Keys without a TTL, and data of another program,
// are added as they were observed.
func (q *queue) lastLocked(now time.Time, w *waiter, stopped *QuorumError) *QuorumError {
	reason := ErrNoQuorum // while the first round is under way
	if q.holder != nil || !q.held.Before(w.since) || q.machine.Taken(now) {
		reason = ErrTaken
	}
	e := q.locker.refusal(event.OpAcquire, w.req.name, reason, func(i int) error {
		if seen := q.machine.Seen(i); seen.Held {
			return nodeerr.ErrHeld
		}
		return nodeerr.ErrQueued
	})
	switch {
	case q.last != nil:
		e.Reason = q.last.Reason
		copy(e.Nodes, q.last.Nodes)
	case stopped != nil && (reason == ErrNoQuorum || stopped.failed() > len(e.Nodes)-e.Need): //nolint:errorlint // it is set above
		return stopped
	}
	for i := range e.Nodes {
		n, since := &e.Nodes[i], q.machine.NoTTLSince(i)
		switch seen := q.machine.Seen(i); {
		case seen.Foreign && !errors.Is(n.Err, nodeerr.ErrForeign):
			n.Err = nodeerr.ErrForeign
		case seen.NoTTL && !since.IsZero(): // otherwise it has changed since
			n.Err = fmt.Errorf("%w: %w, and was seen unchanged for %v", nodeerr.ErrHeld, nodeerr.ErrNoExpiry, now.Sub(since).Round(time.Millisecond))
		}
	}
	e.blame()
	return e
}

// do reports an event to the machine and applies the actions that come of it. It returns false if the queue is gone.
func (q *queue) do(report func(now time.Time) quorum.Actions) bool {
	q.mu.Lock()
	if q.gone {
		q.mu.Unlock()
		return false
	}
	now := q.locker.clock.Now()
	actions := report(now)
	if w, ok := q.machine.Head(); ok && actions.Try {
		req := w.req
		req.block = q.machine.Block()
		w.offers <- offer{round: q.locker.beginAcquire(req, q.floor)} // does not block, and takes no mutex of another queue
	}
	if actions.Hopeless {
		for _, w := range q.machine.Dismiss() {
			refusal := q.lastLocked(now, w, nil)
			refusal.Reason = ErrForeign // whatever the last round was lost to
			w.offers <- offer{refused: refusal}
		}
	}
	switch at := actions.WakeAt; {
	case at.IsZero():
	case q.timer == nil:
		q.timer = q.locker.clock.AfterFunc(at.Sub(now), func() { q.do(q.machine.Tick) })
	default:
		q.timer.Reset(at.Sub(now))
	}
	q.mu.Unlock()
	q.apply(actions)
	return true
}

// awaits reports whether a change on a node concerns somebody who waits. Most do not, as this process has made them.
func (q *queue) awaits(node int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.machine.Awaits(node)
}

// idleLocked reports whether the queue can be discarded. A lock that has expired may never be unlocked.
func (q *queue) idleLocked(now time.Time) bool {
	return q.machine.Idle(now) || q.machine.Len() == 0 && q.holder != nil && q.holder.err() != nil
}

// apply does what the machine asks for, except rounds.
func (q *queue) apply(actions quorum.Actions) {
	l := q.locker
	if actions.Listen {
		l.queues.listen()
	}
	since := time.Now()
	if len(actions.Observe) > 0 {
		cmd := form.Observe(q.key)
		for _, i := range actions.Observe {
			l.send(since, cmd, q, wire.Tag{What: observation, Node: uint16(i)})
		}
	}
	for _, k := range actions.Heal {
		l.send(since, form.Heal(q.key, k.Token), q, wire.Tag{What: deletion, Node: uint16(k.Node)})
	}
	if s := actions.Stuck; s != nil {
		var nodes []string
		for _, i := range s.Nodes {
			nodes = append(nodes, l.nodes[i].Addr())
		}
		l.events.emit(event.Stuck{At: time.Now(), Name: l.nameOf(q.key), Addrs: nodes, Unchanged: s.Unchanged})
	}
	if a := actions.Announce; a != nil {
		l.publish(a.To, l.nodes[a.Node:a.Node+1], waits, q.key, l.self)
	}
	if t := actions.PassTurn; t != nil {
		if l.events.wants(kindTurns) {
			l.events.emit(event.Turn{At: time.Now(), Name: l.nameOf(q.key), Waiting: len(t.Peers)})
		}
		l.publish(t.To, l.nodes, yours, q.key, t.Peers...)
	}
}

// What a queue sends.
const (
	observation uint8 = iota
	deletion          // of a key without a TTL
)

// Reply implements [wire.Receiver].
func (q *queue) Reply(tag wire.Tag, reply wire.Reply) {
	i, l := int(tag.Node), q.locker
	if tag.What == observation {
		s := lock.KeyState(l.form, reply)
		q.do(func(now time.Time) quorum.Actions { return q.machine.Observed(now, i, s) })
		return
	}
	done := reply.Answer == quorum.Yes
	if done {
		l.events.emit(event.Heal{At: time.Now(), Name: l.nameOf(q.key), Node: i, Addr: l.nodes[i].Addr()})
	}
	q.do(func(now time.Time) quorum.Actions { return q.machine.Healed(now, i, done) })
}
