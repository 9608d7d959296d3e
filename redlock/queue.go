package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// queue carries what quorum.Queue decides for those who wait for one name.
type queue struct {
	locker *Locker
	key    string

	mu      sync.Mutex
	machine *quorum.Queue[*waiter]
	holder  *hold        // the one who waited here and got it last
	last    *QuorumError // why the last round was lost
	floor   uint64       // the highest number that a lost round was granted, since the last that was won
	timer   clock.Timer
	alarm   time.Time // when timer fires; zero if it does not
	gone    bool      // it is no longer among the Locker's
}

// waiter is a call of Lock that waits.
type waiter struct {
	req  request
	turn chan turn
}

// turn is a round that has been begun for a waiter, or why there is none.
type turn struct {
	round *round
	err   error
}

// wait waits in the queue of a name until it holds the lock.
func (l *Locker) wait(ctx context.Context, req request) (*Lock, error) {
	if ctx.Err() != nil {
		return l.acquire(ctx, req) // which asks nobody
	}
	w := &waiter{req: req, turn: make(chan turn, 1)}
	q := l.queues.join(l, w)
	for {
		select {
		case t := <-w.turn:
			lock, err := q.take(ctx, w, t)
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
func (q *queue) take(ctx context.Context, w *waiter, t turn) (*Lock, error) {
	l := q.locker
	if t.err != nil {
		q.do(func(now time.Time) quorum.Moves { return q.machine.Leave(now, w) })
		return nil, t.err
	}
	outcome := t.round.wait(ctx)
	if outcome == quorum.Done {
		lock := newLock(t.round)
		q.do(func(now time.Time) quorum.Moves {
			q.holder, q.last, q.floor = lock.hold, nil, 0
			return q.machine.Won(now, t.round.grant)
		})
		return lock, nil
	}
	if ctx.Err() != nil || l.closing.Err() != nil {
		return q.leave(ctx, w, t.round.refusal)
	}
	q.do(func(now time.Time) quorum.Moves {
		q.last, q.floor = t.round.refusal, max(q.floor, t.round.granted())
		return q.machine.Lost(now)
	})
	return nil, nil
}

// leave gives up the wait of w, unless it turns out to hold the lock. stopped is what the
// nodes had said to its round, if one was under way.
func (q *queue) leave(ctx context.Context, w *waiter, stopped *QuorumError) (*Lock, error) {
	var begun *turn // meanwhile
	var last *QuorumError
	q.do(func(now time.Time) quorum.Moves {
		select {
		case t := <-w.turn:
			begun = &t
			return quorum.Moves{}
		default:
		}
		last = q.lastLocked(w, stopped)
		return q.machine.Leave(now, w)
	})
	switch {
	case begun != nil:
		return q.take(ctx, w, *begun)
	case q.locker.closing.Err() != nil:
		return nil, ErrClosed
	default:
		return nil, interrupted(ctx, last)
	}
}

// lastLocked returns why w does not hold the lock: the last round that came to an end, or that which was
// stopped if there was none. What a look has shown is added.
func (q *queue) lastLocked(w *waiter, stopped *QuorumError) *QuorumError {
	e := &QuorumError{Op: opAcquire, Name: w.req.name, Need: quorum.Majority(len(q.locker.nodes)), Reason: ErrTaken}
	switch {
	case q.last != nil:
		*e = *q.last
		e.Nodes = slices.Clone(e.Nodes)
	case stopped != nil:
		return stopped
	default:
		for _, node := range q.locker.nodes {
			e.Nodes = append(e.Nodes, NodeError{Addr: node.Addr(), Err: ErrQueued})
		}
	}
	for i := range e.Nodes {
		if q.machine.Seen(i).NoTTL {
			e.Nodes[i].Err = fmt.Errorf("%w: %w", pool.ErrHeld, ErrNoExpiry)
		}
	}
	return e
}

// do tells the machine of an event, and does what comes of it.
func (q *queue) do(event func(now time.Time) quorum.Moves) {
	q.mu.Lock()
	if q.gone {
		q.mu.Unlock()
		return
	}
	q.doLocked(event)
}

// doLocked is do for a queue that is locked. It unlocks it.
func (q *queue) doLocked(event func(now time.Time) quorum.Moves) {
	now := q.locker.clock.Now()
	m := event(now)
	if m.Try {
		q.beginLocked()
	}
	q.armLocked(now, m.At)
	tokens := make([]string, len(m.Heal))
	for i, node := range m.Heal {
		tokens[i] = q.machine.Seen(node).Token
	}
	q.mu.Unlock()
	q.carry(m, tokens)
}

// beginLocked begins a round for the waiter at the head. It takes no lock of another queue and waits for
// nothing: to send is to queue.
func (q *queue) beginLocked() {
	w, ok := q.machine.Head()
	if !ok {
		return
	}
	r, err := q.locker.newAcquire(w.req, q.floor)
	if err == nil {
		r.ask()
	}
	w.turn <- turn{r, err}
}

// idleLocked says that there is nothing to remember. A lock that has expired may never be unlocked.
func (q *queue) idleLocked(now time.Time) bool {
	return q.machine.Idle(now) || q.machine.Empty() && q.holder != nil && q.holder.err() != nil
}

// armLocked has tick called at an instant, if that is not done before.
func (q *queue) armLocked(now, at time.Time) {
	if at.IsZero() || !q.alarm.IsZero() && !at.Before(q.alarm) {
		return
	}
	q.alarm = at
	if q.timer == nil {
		q.timer = q.locker.clock.AfterFunc(at.Sub(now), q.tick)
	} else {
		q.timer.Reset(at.Sub(now))
	}
}

func (q *queue) tick() {
	q.do(func(now time.Time) quorum.Moves {
		q.alarm = time.Time{}
		return q.machine.Tick(now)
	})
}

// carry does what the machine asks for beside rounds. tokens are those of the keys to heal.
func (q *queue) carry(m quorum.Moves, tokens []string) {
	if m.Listen {
		q.locker.queues.listen(q.locker)
	}
	nodes, since := q.locker.nodes, time.Now()
	if len(m.Look) > 0 {
		look := pool.Look(q.key)
		for _, i := range m.Look {
			nodes[i].Send(since, look, (*looks)(q), i)
		}
	}
	for i, node := range m.Heal {
		nodes[node].Send(since, pool.Heal(q.key, tokens[i]), (*heals)(q), node)
	}
	if m.Announce != nil {
		q.locker.announce(q.key, m.Announce)
	}
	if m.Pass != nil {
		q.locker.pass(q.key, m.Pass)
	}
}

// looks takes the answers to looks.
type looks queue

// Reply implements [pool.Receiver].
func (a *looks) Reply(node int, _ *pool.Command, reply pool.Reply) {
	s := quorum.Sight{Answered: true, Watched: reply.Watched}
	switch reply.Answer {
	case pool.Yes:
		s.Held, s.Token, s.Owner = true, reply.Value, ownerOf(reply.Value)
		s.TTL, s.NoTTL = reply.TTL, reply.TTL == pool.NoTTL
		if !s.NoTTL { // else it is the whole value that a key is healed by
			s.Token, _ = a.locker.split(reply.Value)
		}
	case pool.No:
	default:
		var refusal *pool.ServerError
		// Another type of data is there to stay, and everything else will tell in time.
		s = quorum.Sight{Answered: errors.As(reply.Err, &refusal) && refusal.Code == "WRONGTYPE"}
		s.Held, s.NoTTL, s.Watched = s.Answered, s.Answered, reply.Watched
	}
	q := (*queue)(a)
	q.do(func(now time.Time) quorum.Moves { return q.machine.Saw(now, node, s) })
}

// heals takes the answers to the deletion of keys without a TTL.
type heals queue

// Reply implements [pool.Receiver].
func (a *heals) Reply(node int, _ *pool.Command, reply pool.Reply) {
	q := (*queue)(a)
	done := reply.Answer == pool.Yes
	if done {
		q.locker.logger.Warn("redlock: a key that had no TTL has been deleted", "key", q.key, "node", q.locker.nodes[node].Addr())
	}
	q.do(func(now time.Time) quorum.Moves { return q.machine.Healed(now, node, done) })
}

// atRandom returns a duration below a bound.
func atRandom(below time.Duration) time.Duration {
	if below <= 0 {
		return 0
	}
	return rand.N(below)
}
