// Package pipeline decides what becomes of the commands that are put to one node:
// which go out, in which order, what is known of them when an answer does not come,
// and what is sent again.
//
// A [Pipeline] is told what happens (a command, an answer, a connection that came or
// broke, time going by) and says what to write and whom to tell. It does no I/O, reads no
// clock and starts no goroutine; the node around it serialises the events.
package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// maxUnderWay bounds the commands that are queued or unanswered. Above it the node is
	// not asked (ErrBusy), whatever it is that it does with its time.
	maxUnderWay = 4096
	// maxCleanUp is the bound for clean-up, which is taken on for longer: what is not
	// cleaned up stays until its TTL.
	maxCleanUp = 4 * maxUnderWay
)

// Reasons for the end of a command.
var (
	ErrTimeout   = errors.New("no answer in time")
	ErrSuspended = errors.New("not asked: older answers are overdue")
	ErrBusy      = errors.New("not asked: too many commands under way")
	ErrBroken    = errors.New("connection broken before the answer")
	ErrClosed    = errors.New("node is closed")
)

// Kind says how a command is treated when things go wrong.
type Kind uint8

// The kinds.
const (
	// Plain: not written once its timeout is over; lost with its connection.
	Plain Kind = iota
	// CleanUp removes what is ours, so it may arrive at any time and any number of
	// times: it is sent until it is answered, or no longer owed.
	CleanUp
	// Undo does harm if it takes effect late: whether it still can is found out, however
	// long that takes.
	Undo
)

// Op is a command under way, of which the pipeline knows no more than this.
type Op[T any] struct {
	Item T
	Kind Kind
	Owed time.Duration // for CleanUp: how long after its connection broke it is worth sending
	// Again says that the server did not take the command in the form that it was sent in
	// before, see Repeat.
	Again bool

	deadline time.Time
	told     bool      // its end has been told: an answer that comes now is swallowed
	until    time.Time // for CleanUp that is owed: when it is pointless to send it
}

// worthwhile says whether clean-up that could not be delivered can still change
// anything. The time that it is owed begins when this is first asked.
func (o *Op[T]) worthwhile(now time.Time) bool {
	if o.until.IsZero() {
		o.until = now.Add(o.Owed)
	}
	return now.Before(o.until)
}

// Fate is what is known of a command that was not answered.
type Fate uint8

// The fates.
const (
	Unsent Fate = iota // it never went out
	Maybe              // nobody knows
	Undone             // it has not taken effect, and will not
)

// Notice is the end of a command that was not answered: to be told to whoever sent it.
type Notice[T any] struct {
	Item T
	Fate Fate
	Err  error
}

// Pipeline is the commands of one node. Commands are written in the order in which
// they were sent, and answers come in the order in which commands were written.
type Pipeline[T any] struct {
	timeout    time.Duration // for each command
	maxOverdue time.Duration // for an answer, on top of it

	owed    fifo[Op[T]] // clean-up that was told and not delivered: it goes first on the next connection
	queue   fifo[Op[T]] // not written yet
	sent    fifo[Op[T]] // written and not answered
	limbo   []Op[T]     // undos that were not answered when their connection broke
	up      bool        // there is a connection
	cutting bool        // it is being cut, as its oldest answer was overdue for too long
	down    error       // why there is none; nil while connected or trying for the first time
	suspect bool        // an answer is overdue
	closed  bool
}

// New makes the pipeline of a node without a connection.
func New[T any](timeout, maxOverdue time.Duration) *Pipeline[T] {
	return &Pipeline[T]{timeout: timeout, maxOverdue: maxOverdue}
}

// Send takes a command on, or says why it is not even queued. first says that
// nothing else waits to be written. The command ends within the timeout: by an answer, or
// by a Notice of Expire at now + timeout.
func (p *Pipeline[T]) Send(now time.Time, op Op[T]) (first bool, err error) {
	if err := p.refusal(op.Kind); err != nil {
		return false, err
	}
	op.deadline = now.Add(p.timeout)
	p.queue.push(op)
	return p.queue.len() == 1, nil
}

// SendPair takes two commands on as Send does, or neither. Where both are written on one
// connection, op directly follows lead. It does not where lead was written and the
// connection broke then: op goes out on the next one alone. lead must not be owed.
func (p *Pipeline[T]) SendPair(now time.Time, lead, op Op[T]) (first bool, err error) {
	if first, err = p.Send(now, lead); err != nil {
		return false, err
	}
	op.deadline = now.Add(p.timeout)
	p.queue.push(op)
	return first, nil
}

func (p *Pipeline[T]) refusal(kind Kind) error {
	underWay := p.owed.len() + p.queue.len() + p.sent.len()
	// What has to follow something on its way to the server is taken on while that
	// does not answer.
	follows := kind == CleanUp || kind == Undo && p.up
	switch {
	case p.closed:
		return ErrClosed
	case follows && underWay < maxCleanUp:
		return nil
	case p.suspect:
		return ErrSuspended
	case !p.up && p.down != nil:
		return p.down
	case underWay >= maxUnderWay:
		return ErrBusy
	}
	return nil
}

// Take returns the next command to write, which is answered after all that were
// taken before it. owed says that it is one that was told before: its timeout begins
// now.
func (p *Pipeline[T]) Take(now func() time.Time) (op Op[T], owed, ok bool) {
	if p.queue.len() == 0 {
		return op, false, false
	}
	op = p.queue.pop()
	if op.told {
		op.deadline = now().Add(p.timeout)
	}
	p.sent.push(op)
	return op, op.told, true
}

// Withdraw ends what waits to be written and is of some sort, as never sent.
func (p *Pipeline[T]) Withdraw(which func(T) bool, err error) []Notice[T] {
	var notices []Notice[T]
	p.queue.keep(func(o *Op[T]) bool {
		if !which(o.Item) {
			return true
		}
		notices = o.tell(notices, Unsent, err)
		return false
	})
	return notices
}

// Idle says that nothing waits to be written or answered.
func (p *Pipeline[T]) Idle() bool { return p.queue.len()+p.sent.len() == 0 }

// Answered takes an answer: it belongs to op. told says that the end of op has been
// told and the answer is nobody's any more; ok is false if there is no question to it.
func (p *Pipeline[T]) Answered() (op Op[T], told, ok bool) {
	if p.sent.len() == 0 {
		return op, false, false
	}
	p.suspect = false
	op = p.sent.pop()
	return op, op.told, true
}

// Repeat sends an answered command once more, as the server asked for it in another
// form. It returns false where nobody waits for it, or where it must not follow one of those that were sent after it, as
// overtaken says; nil: it may follow all.
func (p *Pipeline[T]) Repeat(op Op[T], overtaken func(later T) bool) bool {
	if op.told && op.Kind != CleanUp {
		return false
	}
	is := func(later Op[T]) bool { return overtaken(later.Item) }
	if overtaken != nil && (slices.ContainsFunc(p.sent.all(), is) || slices.ContainsFunc(p.queue.all(), is)) {
		return false
	}
	op.Again = true
	p.queue.push(op)
	return true
}

// Connected tells of a connection. Clean-up that is owed goes first on it.
func (p *Pipeline[T]) Connected() {
	p.up, p.cutting, p.down = true, false, nil
	for p.queue.len() > 0 {
		p.owed.push(p.queue.pop())
	}
	p.queue, p.owed = p.owed, p.queue
}

// Failed tells of an attempt to connect that did not succeed. It ends what waits for
// it; clean-up stays for as long as it is owed.
func (p *Pipeline[T]) Failed(now time.Time, err error) []Notice[T] {
	p.down = err
	var notices []Notice[T]
	for p.queue.len() > 0 {
		o, fate := p.queue.pop(), Unsent
		if o.Kind == CleanUp { // something of ours may be on the server
			fate = Maybe
		}
		notices = o.tell(notices, fate, err)
		if o.Kind == CleanUp {
			p.owed.push(o)
		}
	}
	p.owed.keep(func(o *Op[T]) bool { return o.worthwhile(now) })
	return notices
}

// Blame says why there is no connection, if nothing has said so yet: the first attempt
// still goes on.
func (p *Pipeline[T]) Blame(err error) {
	if !p.up && p.down == nil {
		p.down = err
	}
}

// Broken tells of the end of the connection, and why; nil: it was cut. What was
// written and not answered is lost, but for the clean-up, which is owed, and the undos,
// which are in limbo until Settled. unfinished says that answers were missing.
func (p *Pipeline[T]) Broken(now time.Time, cause error) (notices []Notice[T], unfinished bool) {
	p.up, p.suspect = false, false
	unfinished = p.sent.len() > 0
	reason := ErrBroken
	if cause != nil {
		reason = fmt.Errorf("%w: %w", ErrBroken, cause)
	}
	for p.sent.len() > 0 {
		o := p.sent.pop()
		if o.Kind == Undo {
			p.limbo = append(p.limbo, o)
			continue
		}
		notices = o.tell(notices, Maybe, reason)
		if o.Kind == CleanUp && o.worthwhile(now) {
			p.owed.push(o)
		}
	}
	return notices, unfinished
}

// Settled tells what became of the connection that broke last: fenced says that the
// server reads nothing more from it.
func (p *Pipeline[T]) Settled(fenced bool) []Notice[T] {
	fate := Maybe
	if fenced {
		fate = Undone
	}
	var notices []Notice[T]
	for i := range p.limbo {
		notices = p.limbo[i].tell(notices, fate, ErrBroken)
	}
	p.limbo = nil
	return notices
}

// Expire ends the commands whose time is over. cut says that the oldest answer is
// overdue for so long that the connection has to be cut; next is when to call again, zero
// if nothing is under way.
func (p *Pipeline[T]) Expire(now time.Time) (notices []Notice[T], cut bool, next time.Time) {
	look := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for i := range p.sent.all() {
		if o := &p.sent.all()[i]; now.Before(o.deadline) {
			look(o.deadline)
		} else {
			p.suspect = true
			if o.Kind != Undo {
				notices = o.tell(notices, Maybe, ErrTimeout)
			}
		}
	}
	notices = p.expireQueue(now, notices, look)
	if p.sent.len() > 0 && p.up && !p.cutting {
		limit := p.sent.all()[0].deadline.Add(p.maxOverdue)
		if cut = !now.Before(limit); cut {
			p.cutting = true
		} else {
			look(limit)
		}
	}
	return notices, cut, next
}

func (p *Pipeline[T]) expireQueue(now time.Time, notices []Notice[T], look func(time.Time)) []Notice[T] {
	reason := ErrTimeout
	if !p.up && p.down != nil {
		reason = p.down
	}
	p.queue.keep(func(o *Op[T]) bool {
		switch {
		case now.Before(o.deadline):
			look(o.deadline)
			return true
		case o.Kind == CleanUp: // something of ours may be on the server
			notices = o.tell(notices, Maybe, reason)
			if !p.up {
				p.owed.push(*o)
			}
			return p.up
		default:
			notices = o.tell(notices, Unsent, reason)
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

// Closed says that Close has been called.
func (p *Pipeline[T]) Closed() bool { return p.closed }

// End ends what was never written, once the pipeline is closed and its connection
// gone.
func (p *Pipeline[T]) End() []Notice[T] {
	var notices []Notice[T]
	for p.queue.len() > 0 {
		o := p.queue.pop()
		notices = o.tell(notices, Unsent, ErrClosed)
	}
	return append(notices, p.Settled(false)...)
}

// tell adds the end of a command, once.
func (o *Op[T]) tell(notices []Notice[T], fate Fate, err error) []Notice[T] {
	if o.told {
		return notices
	}
	o.told = true
	return append(notices, Notice[T]{o.Item, fate, err})
}
