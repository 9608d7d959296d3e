package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

const (
	// maxUnderWay bounds the commands that are queued or unanswered. Above it the node is not asked (ErrBusy).
	maxUnderWay = 4096
	// maxCleanUp is the bound for clean-up. It is higher, since a key that is not cleaned up stays until its TTL.
	maxCleanUp = 4 * maxUnderWay
)

// Op is a command in a pipeline, which knows no more of it than this.
type Op[T any] struct {
	Item T
	// CleanUp marks a command that removes what is ours, so that it may arrive at any time and any number of times. It is
	// sent until it is answered, or for Redeliver after its connection broke. Any other command is not written once its
	// timeout is over, and is lost with its connection.
	CleanUp   bool
	Redeliver time.Duration
	// Again reports that the server did not accept the command in the form in which it was sent before, see Repeat.
	Again bool

	deadline time.Time
	reported bool      // its end has been reported: an answer that comes now is dropped
	until    time.Time // of clean-up whose connection broke: when it is pointless to send it
}

// worthwhile reports whether clean-up that could not be delivered can still change anything. Redeliver begins
// with the first call.
func (o *Op[T]) worthwhile(now time.Time) bool {
	if o.until.IsZero() {
		o.until = now.Add(o.Redeliver)
	}
	return now.Before(o.until)
}

// Notice is the end of a command that was not answered, to be reported to its sender.
type Notice[T any] struct {
	Item   T
	Answer quorum.Answer // Unsent, or Unknown if it may have been carried out
	Err    error
}

// report adds the end of a command to notices, once.
func (o *Op[T]) report(notices []Notice[T], answer quorum.Answer, err error) []Notice[T] {
	if o.reported {
		return notices
	}
	o.reported = true
	return append(notices, Notice[T]{o.Item, answer, err})
}

// Pipeline decides what becomes of the commands that are sent to one node: which are written and in which order, what is
// known of them if no answer comes, and which are sent again. Commands are written in the order in which they were
// sent, and answers come in the order in which commands were written.
//
// It does no I/O, reads no clock and starts no goroutine; the node around it serialises its events.
type Pipeline[T any] struct {
	timeout    time.Duration // for each command
	maxOverdue time.Duration // for an answer, on top of it

	pending fifo[Op[T]] // clean-up that was reported and not delivered: it goes first on the next connection
	queue   fifo[Op[T]] // not written yet
	sent    fifo[Op[T]] // written and not answered
	up      bool        // there is a connection
	cutting bool        // it is being cut, as its oldest answer was overdue for too long
	down    error       // why there is none; nil while connected or trying for the first time
	overdue bool        // an answer is
	closed  bool
}

// NewPipeline makes the pipeline of a node without a connection.
func NewPipeline[T any](timeout, maxOverdue time.Duration) *Pipeline[T] {
	return &Pipeline[T]{timeout: timeout, maxOverdue: maxOverdue}
}

// Send queues a command, or returns why it does not. first reports whether nothing else waits to be written. The
// command ends within the timeout: by an answer, or by a Notice of Expire at now + timeout.
func (p *Pipeline[T]) Send(now time.Time, op Op[T]) (first bool, err error) {
	underWay := p.pending.len() + p.queue.len() + p.sent.len()
	switch {
	case p.closed:
		return false, ErrClosed
	case op.CleanUp && underWay < maxCleanUp: // accepted also while the server does not answer
	case p.overdue:
		return false, ErrSuspended
	case !p.up && p.down != nil:
		return false, p.down
	case underWay >= maxUnderWay:
		return false, ErrBusy
	}
	op.deadline = now.Add(p.timeout)
	p.queue.push(op)
	return p.queue.len() == 1, nil
}

// Take returns the next command to write. It is answered after all that were taken before it. late reports that
// its end was reported before: its timeout begins now.
func (p *Pipeline[T]) Take(now func() time.Time) (op Op[T], late, ok bool) {
	if p.queue.len() == 0 {
		return op, false, false
	}
	op = p.queue.pop()
	if op.reported {
		op.deadline = now().Add(p.timeout)
	}
	p.sent.push(op)
	return op, op.reported, true
}

// Withdraw ends the queued commands for which which returns true, as never sent.
func (p *Pipeline[T]) Withdraw(which func(T) bool, err error) []Notice[T] {
	var notices []Notice[T]
	p.queue.keep(func(o *Op[T]) bool {
		if !which(o.Item) {
			return true
		}
		notices = o.report(notices, quorum.Unsent, err)
		return false
	})
	return notices
}

// Idle reports whether nothing waits to be written or answered.
func (p *Pipeline[T]) Idle() bool { return p.queue.len()+p.sent.len() == 0 }

// Next returns the command that the next answer belongs to; false if there is none.
func (p *Pipeline[T]) Next() (item T, ok bool) {
	if p.sent.len() == 0 {
		return item, false
	}
	return p.sent.all()[0].Item, true
}

// Answered takes an answer, which belongs to op. reported means that the end of op has been reported before, so that
// nobody waits for the answer. ok is false if no command is unanswered.
func (p *Pipeline[T]) Answered() (op Op[T], reported, ok bool) {
	if p.sent.len() == 0 {
		return op, false, false
	}
	p.overdue = false
	op = p.sent.pop()
	return op, op.reported, true
}

// Repeat sends an answered command once more, since the server asked for another form of it. It returns false if
// nobody waits for it, or if mustPrecede holds for a command that was sent after it. A nil mustPrecede never holds.
func (p *Pipeline[T]) Repeat(op Op[T], mustPrecede func(later T) bool) bool {
	if op.reported && !op.CleanUp {
		return false
	}
	later := func(o Op[T]) bool { return mustPrecede(o.Item) }
	if mustPrecede != nil && (slices.ContainsFunc(p.sent.all(), later) || slices.ContainsFunc(p.queue.all(), later)) {
		return false
	}
	op.Again = true
	p.queue.push(op)
	return true
}

// Connected takes note of a new connection. Pending clean-up goes first on it.
func (p *Pipeline[T]) Connected() {
	p.up, p.cutting, p.down = true, false, nil
	for p.queue.len() > 0 {
		p.pending.push(p.queue.pop())
	}
	p.queue, p.pending = p.pending, p.queue
}

// Failed takes note of an attempt to connect that failed. It ends what waits for a connection, except for clean-up that
// can still change something.
func (p *Pipeline[T]) Failed(now time.Time, err error) []Notice[T] {
	if p.closed {
		return nil // what waits ends with ErrClosed
	}
	p.down = err
	var notices []Notice[T]
	for p.queue.len() > 0 {
		o := p.queue.pop()
		if !o.CleanUp {
			notices = o.report(notices, quorum.Unsent, err)
			continue
		}
		notices = o.report(notices, quorum.Unknown, err) // something of ours may be on the server
		p.pending.push(o)
	}
	p.pending.keep(func(o *Op[T]) bool { return o.worthwhile(now) })
	return notices
}

// Blame takes note of why there is no connection, unless a reason is known: the first attempt has not ended.
func (p *Pipeline[T]) Blame(err error) {
	if !p.up && p.down == nil {
		p.down = err
	}
}

// Broken takes note of the end of the connection. cause is nil if the connection was cut. What was written and not
// answered is lost, except for clean-up, which is sent again. unfinished reports whether answers were missing.
func (p *Pipeline[T]) Broken(now time.Time, cause error) (notices []Notice[T], unfinished bool) {
	p.up, p.overdue = false, false
	unfinished = p.sent.len() > 0
	reason := ErrBroken
	if cause != nil {
		reason = fmt.Errorf("%w: %w", ErrBroken, cause)
	}
	for p.sent.len() > 0 {
		o := p.sent.pop()
		notices = o.report(notices, quorum.Unknown, reason)
		if o.CleanUp && o.worthwhile(now) {
			p.pending.push(o)
		}
	}
	return notices, unfinished
}

// Expire ends the commands whose timeout is over. cut reports that the oldest answer has been overdue for so long that
// the connection has to be cut. next is when to call Expire again; zero if nothing is under way.
func (p *Pipeline[T]) Expire(now time.Time) (notices []Notice[T], cut bool, next time.Time) {
	wake := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for i := range p.sent.all() {
		if o := &p.sent.all()[i]; now.Before(o.deadline) {
			wake(o.deadline)
		} else {
			p.overdue = true
			notices = o.report(notices, quorum.Unknown, ErrTimeout)
		}
	}
	notices = p.expireQueue(now, notices, wake)
	if p.sent.len() > 0 && p.up && !p.cutting {
		limit := p.sent.all()[0].deadline.Add(p.maxOverdue)
		if cut = !now.Before(limit); cut {
			p.cutting = true
		} else {
			wake(limit)
		}
	}
	return notices, cut, next
}

func (p *Pipeline[T]) expireQueue(now time.Time, notices []Notice[T], wake func(time.Time)) []Notice[T] {
	reason := ErrTimeout
	if !p.up && p.down != nil {
		reason = p.down
	}
	p.queue.keep(func(o *Op[T]) bool {
		switch {
		case now.Before(o.deadline):
			wake(o.deadline)
			return true
		case o.CleanUp: // something of ours may be on the server
			notices = o.report(notices, quorum.Unknown, reason)
			if !p.up {
				p.pending.push(*o)
			}
			return p.up
		default:
			notices = o.report(notices, quorum.Unsent, reason)
			return false
		}
	})
	return notices
}

// Close refuses every later command, and queues last behind those before.
func (p *Pipeline[T]) Close(now time.Time, last Op[T]) {
	p.closed = true
	last.deadline = now.Add(p.timeout)
	p.queue.push(last)
}

// Closed reports whether Close has been called.
func (p *Pipeline[T]) Closed() bool { return p.closed }

// End ends what was never written, once the pipeline is closed and its connection gone.
func (p *Pipeline[T]) End() []Notice[T] {
	var notices []Notice[T]
	for p.queue.len() > 0 {
		o := p.queue.pop()
		notices = o.report(notices, quorum.Unsent, ErrClosed)
	}
	return notices
}
