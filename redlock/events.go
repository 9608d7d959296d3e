package redlock

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// acquired reports the end of a call that takes a lock. lock is nil if the call did not get it. If an Observer wants
// the ends of locks, acquired also asks the engine to report the end of this one.
func (l *Locker) acquired(op event.Op, try bool, req *request, lock *Lock, err error) {
	if lock != nil {
		h := lock.held
		h.Enter()
		defer h.Exit()
	}
	if !l.events.endUnheard(req.call) {
		l.emitAcquireLocked(op, try, req, lock, err)
	}
	if lock != nil && !lock.reenteredLocked(req.call) && l.events.wants(groupEnds) {
		lock.held.AwaitLocked(lock.holder, l.events.since())
	}
}

// reenteredLocked reports whether the lock was already held when call c made the handle.
func (l *Lock) reenteredLocked(c *observedCall) bool { return callOf(l.holder.Of) != c }

// emitAcquireLocked emits the event.Acquire of a call. lock is nil if the call did not get the lock. Otherwise the
// caller has the mutex of the lock.
func (l *Locker) emitAcquireLocked(op event.Op, try bool, req *request, lock *Lock, err error) {
	c := req.call
	e := event.Acquire{
		Op: op, Try: try, Context: c.ctx, Call: c.id, Name: req.name, Names: req.names, Kind: req.Kind.String(),
		Start: c.start, Took: time.Since(c.start), Rounds: c.rounds, Err: err,
	}
	if c.rounds > 0 {
		e.Wait = c.began.Sub(c.start)
	}
	if lock == nil {
		if err == nil { // the call ends without a result, because the source has not returned
			e.Err = failed(event.OpAcquire, req.name, errors.New("TokenSource: it has not returned"))
		}
		l.events.emitEnd(c, e)
		return
	}
	h, now := lock.held, lock.held.Now()
	e.Kind = h.First.Want.Kind.String() // a reader may have re-entered a writer's lock
	if h.StandsLocked(&lock.hold, now) == quorum.NotEnded {
		e.Validity = h.Lease.Remaining(now)
	}
	e.Fence, e.Reentered = lock.holder.Fence, lock.reenteredLocked(c)
	if e.Handoff = !e.Reentered && lock.holder != &h.First; e.Handoff {
		e.Wait = e.Took
	}
	l.events.emitEnd(c, e)
}

// extended reports the end of an extension of a lock. deadline is the deadline of the lock before the extension, or
// zero if no node was asked. by is the holder that called Extend, or nil for the present holder.
func (l *Locker) extended(h *engine.Held, e event.Extend, by *engine.Holder, c *observedCall, deadline time.Time) {
	if l.events.endUnheard(c) {
		return
	}
	h.Enter()
	defer h.Exit() // so that the end of a lock that has validity is not reported before this event
	now := h.Now()
	if h.AtLocked(now) == quorum.NotEnded && (by == nil || by == h.Holder) {
		e.Validity = h.Lease.Remaining(now)
	}
	if e.Left = e.Validity; !deadline.IsZero() {
		e.Left = max(0, deadline.Sub(now))
	}
	e.Lock = callOf(cmp.Or(by, h.Holder).Of).callID()
	e.Context, e.Call, e.Name, e.Kind = c.ctx, c.id, l.nameOf(h.Name.Key()), h.First.Want.Kind.String()
	e.Start, e.Took = c.start, time.Since(c.start)
	l.events.emitEnd(c, e)
}

// released reports the end of a lock after its release. The end is a loss if the release found that the nodes no longer
// held the lock.
func (l *Locker) released(h *engine.Held, outcome quorum.Outcome, unlock *observedCall) {
	h.Enter()
	defer h.Exit()
	e := event.End{Err: ErrReleased}
	if outcome == quorum.Denied {
		e.Err = l.endLocked(h, quorum.Gone)
	}
	l.endedLocked(h, e, unlock)
}

// program is the Locker as the [engine.Events] of its engine and the Reporter of its nodes. It makes events of their
// reports.
type program struct{ *Locker }

// Health emits the event about the new state of a node.
func (p program) Health(node int, h engine.Health) {
	now, addr := time.Now(), p.addr(node)
	switch {
	case !h.Up:
		p.events.emit(event.NodeDown{At: now, Node: node, Addr: addr, Failed: h.Failed, Err: h.Err})
	case h.Same:
		p.events.emit(event.Quarantine{At: now, Node: node, Addr: addr, Quarantined: h.Quarantined, Left: h.Left, Err: h.Err})
	default:
		if h.Alone && !p.alone[node].Swap(true) {
			p.events.logLine(slog.LevelWarn, false, "redlock: a primary grants locks even if it is cut off from its replicas",
				"node", addr, "error", "min-replicas-to-write is not set")
		}
		p.events.emit(event.NodeUp{
			At: now, Node: node, Addr: addr, Down: h.Down, Failed: h.Failed,
			Quarantined: h.Quarantined, Left: h.Left, Err: h.Err,
		})
	}
}

// Turn emits a protocol.Turn, if an observer wants it.
func (p program) Turn(key string, waiting int, received bool) {
	if p.events.wants(groupTurns) {
		p.events.emit(protocol.Turn{At: time.Now(), Name: p.nameOf(key), Received: received, Waiting: waiting})
	}
}

// Stuck emits an event.Stuck.
func (p program) Stuck(key string, s *engine.Stuck) {
	var addrs []string
	for _, node := range s.Nodes {
		addrs = append(addrs, p.addr(node))
	}
	p.events.emit(event.Stuck{At: time.Now(), Name: p.nameOf(key), Addrs: addrs, Unchanged: s.Unchanged})
}

// Healed emits an event.Heal.
func (p program) Healed(key string, node int) {
	p.events.emit(event.Heal{At: time.Now(), Name: p.nameOf(key), Node: node, Addr: p.addr(node)})
}
