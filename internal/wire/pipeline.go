package wire

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

const (
	// maxUnderWay bounds the commands that are queued or unanswered. At this bound the node is not asked
	// (nodeerr.ErrOverloaded).
	maxUnderWay = 4096
	// maxCleanUp is the bound for clean-up. It is higher, because a key that is not cleaned up stays until its TTL is
	// over. It is also the bound for observations with WantsLate. Without the observation, only the next renewal finds a
	// loss.
	maxCleanUp = 4 * maxUnderWay
)

// Op is a command in a pipeline, with the Item by which its sender knows it. Unless it cleans up, it is not written
// once its timeout is over, and it is lost with its connection.
type Op[T any] struct {
	Item    T
	Command *Command
	Again   bool // the server did not accept the command in the form in which it was sent before, see Repeat

	deadline time.Time
	reported bool      // its end has been reported: an answer that comes now is late
	undone   bool      // the wrong server has answered it
	unsent   bool      // it has ended without being written
	needless bool      // clean-up after an acquire that was never written
	until    time.Time // when it is pointless to send clean-up that was lost; zero if it was not lost
}

// Notice is the end of a command that was not answered, to be reported to its sender.
type Notice[T any] struct {
	Item   T
	Answer quorum.Answer // Unsent, or Unknown if it may have been carried out
	Err    error
}

// Pipeline decides the fate of the commands that are sent to one node. It decides which are written in which order, and
// which are sent again. If no answer comes, it decides which result is reported. Commands are written in the order in
// which they were sent. Answers come in the order in which commands were written.
//
// It does no I/O, reads no clock and starts no goroutine. The node around it serialises its events. At first there is
// no connection.
type Pipeline[T any] struct {
	Life       Life
	Timeout    time.Duration // of each command
	First      time.Duration // of a command that waits for the first attempt to connect, if that is longer than Timeout
	MaxOverdue time.Duration // for how long an answer may be overdue, after the timeout

	ops     []Op[T] // from head on: the commands under way, oldest first
	head    int
	written int         // how many of the commands under way were written; the others wait behind them
	notices []Notice[T] // not reported yet
	overdue bool        // an answer is overdue
	silence time.Time   // when clean-up was first sent to a server that did not answer; zero if it has answered since
	closed  bool
}

// underWay returns the commands that are queued or unanswered, the oldest first.
func (p *Pipeline[T]) underWay() []Op[T] { return p.ops[p.head:] }

// Send queues a command, or returns why it does not. wake reports whether the node has something to do that it did not
// have before. The command ends within the timeout: by an answer, or by a Notice after Expire. expire is when to call
// Expire at the latest.
func (p *Pipeline[T]) Send(now time.Time, op Op[T]) (wake bool, expire time.Time, err error) {
	underWay, wakes := len(p.underWay()), false
	if !p.closed {
		wakes = p.Life.wanted(now)
	}
	silent := p.silent()
	if err := p.refusal(op.Command, silent); err != nil {
		return false, time.Time{}, err
	}
	op.deadline = now.Add(p.Timeout)
	if !p.Life.met {
		op.deadline = now.Add(max(p.Timeout, p.First))
	}
	if silent != nil && op.Command.CleansUp() {
		if p.silence.IsZero() {
			p.silence = now
		}
		op.deadline = p.silence.Add(p.Timeout) // releases one after the other wait for one timeout in all
	}
	p.ops = append(p.ops, op)
	if !now.Before(op.deadline) {
		p.end(underWay, silent)
	}
	return wakes || underWay == p.written, now.Add(min(p.Timeout, op.deadline.Sub(now))), nil
}

// refusal returns why a command is not queued; nil if it is. silent is the reason of [Pipeline.silent].
func (p *Pipeline[T]) refusal(cmd *Command, silent error) error {
	underWay := len(p.underWay())
	switch {
	case p.closed:
		return nodeerr.ErrClosed
	case cmd.CleansUp() && underWay < maxCleanUp: // accepted also while the server does not answer
		return nil
	case cmd.CleansUp(): // this error says that it is not sent again
		return nodeerr.ErrOverloaded
	case p.Life.Refusal() == nil && cmd.WantsLate && !cmd.Changes() && underWay < maxCleanUp:
		return nil // a late answer shows whether the key is gone
	case silent != nil:
		return silent
	case underWay >= maxUnderWay:
		return nodeerr.ErrOverloaded
	}
	return nil
}

// silent returns why no answer can be expected: the reason why there is no connection, or ErrSuspended. It is nil as
// long as the server answers.
func (p *Pipeline[T]) silent() error {
	if refusal := p.Life.Refusal(); refusal != nil || !p.overdue {
		return refusal
	}
	return nodeerr.ErrSuspended
}

// Take returns the next commands to write, limit at most. They are answered in this order, after all commands that were
// taken before. If the end of a command was reported before, its timeout begins now. The result is valid until the next
// call.
func (p *Pipeline[T]) Take(now time.Time, limit int) []Op[T] {
	if p.Life.State() != Serving {
		return nil
	}
	taken := p.underWay()[p.written:]
	taken = taken[:min(limit, len(taken))]
	for i := range taken {
		if taken[i].reported {
			taken[i].deadline = now.Add(p.Timeout)
		}
	}
	p.written += len(taken)
	return taken
}

// Withdraw ends the queued commands that take locks, with err as the reason. Unless token is "", it ends only the
// command that takes the lock of the token.
func (p *Pipeline[T]) Withdraw(now time.Time, token string, err error) {
	for i, o := range p.underWay() {
		if i >= p.written && o.Command.Votes() && (token == "" || o.Command.Token == token) {
			p.end(i, err)
		}
	}
	p.sweep(now)
}

// Idle reports whether nothing waits to be written or answered.
func (p *Pipeline[T]) Idle() bool { return len(p.underWay()) == 0 }

// Next returns the Item of the command to which the next answer belongs, or nil if there is none.
func (p *Pipeline[T]) Next() *T {
	if p.written == 0 {
		return nil
	}
	return &p.underWay()[0].Item
}

// Answered removes the command to which an answer belongs, and returns it as op. There must be a Next. reported means
// that the end of op has been reported before, so that nobody waits for the answer.
func (p *Pipeline[T]) Answered() (op Op[T], reported bool) {
	p.overdue, p.silence = false, time.Time{}
	op = p.underWay()[0]
	p.underWay()[0] = Op[T]{} // so that the slice keeps nothing alive
	p.head++
	p.written--
	if 2*p.head > len(p.ops) { // fewer elements move than have gone since the last time
		p.ops, p.head = slices.Delete(p.ops, 0, p.head), 0
	}
	return op, op.reported
}

// Repeat queues an answered command once more, because the server asked for another form of it. It returns false if
// nobody waits for it, or if a command that was sent after it must follow it.
func (p *Pipeline[T]) Repeat(op Op[T]) bool {
	follows := func(later Op[T]) bool { return later.Command.MustFollow(op.Command) }
	if op.reported && !op.Command.CleansUp() || slices.ContainsFunc(p.underWay(), follows) {
		return false
	}
	op.Again = true
	p.ops = append(p.ops, op)
	return true
}

// Undone queues clean-up once more, because the server that has answered it was the wrong one, or not ready. It is sent
// before the commands that wait, unless it is pointless by now. Its end has been reported.
func (p *Pipeline[T]) Undone(now time.Time, op Op[T]) {
	op.reported, op.undone = true, true
	switch {
	case op.until.IsZero():
		op.until = now.Add(op.Command.Redeliver)
	case !now.Before(op.until):
		return
	}
	at := p.head + p.written
	for at < len(p.ops) && p.ops[at].undone {
		at++
	}
	p.ops = slices.Insert(p.ops, at, op)
}

// Left reports whether the connection may end: the server is the wrong one, and none of its answers is missing.
func (p *Pipeline[T]) Left() bool { return p.Life.State() == Leaving && p.written == 0 }

// Greeted records that a connection is ready. If it comes from the first attempt to connect, the timeout of the
// commands that have waited begins now.
func (p *Pipeline[T]) Greeted(now time.Time) {
	if !p.Life.met {
		for i := range p.underWay() {
			p.underWay()[i].deadline = now.Add(p.Timeout)
		}
	}
	p.silence = time.Time{}
	p.Life.greet(now)
}

// Failed records an attempt to connect that failed. It ends the commands that wait for a connection, except clean-up
// that can still change something. cheap means that the attempt has cost the server little.
func (p *Pipeline[T]) Failed(now time.Time, err error, cheap bool) {
	p.Life.fail(now, err, cheap)
	p.lose(now, len(p.underWay()), err)
}

// Drop ends all commands under way, after the last connection.
func (p *Pipeline[T]) Drop(now time.Time, err error) { p.lose(now, len(p.underWay()), err) }

// Broken records the end of the connection. cause is nil if the connection was cut. The commands that were written and
// not answered are lost, except clean-up, which goes first on the next connection. cheap means that an attempt to
// connect costs the server little. unfinished reports whether answers were missing.
func (p *Pipeline[T]) Broken(now time.Time, cause error, use Use, cheap bool) (unfinished bool) {
	reason := nodeerr.ErrBroken
	if cause != nil {
		reason = fmt.Errorf("%w: %w", nodeerr.ErrBroken, cause)
	}
	unfinished = p.written > 0
	p.Life.end(now, reason, use, cheap)
	p.overdue = false
	p.lose(now, p.written, reason)
	return unfinished
}

// lose ends the first n commands, because there is no connection.
func (p *Pipeline[T]) lose(now time.Time, n int, err error) {
	for i := range n {
		if o := p.end(i, err); o.until.IsZero() {
			o.until = now.Add(o.Command.Redeliver)
		}
	}
	p.written = 0
	p.sweep(now)
}

// Expire ends the commands whose timeout is over. cut reports that the oldest answer has been overdue for MaxOverdue,
// so that the connection has to be cut. next is when to call Expire again; it is zero if nothing is under way.
func (p *Pipeline[T]) Expire(now time.Time) (cut bool, next time.Time) {
	reason := nodeerr.ErrTimeout
	if state := p.Life.State(); state == Leaving || state != Serving && p.Life.reason != nil {
		reason = p.Life.reason
	}
	wake := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for i, o := range p.underWay() {
		if now.Before(o.deadline) {
			wake(o.deadline)
			continue
		}
		p.overdue = p.overdue || i < p.written
		p.end(i, reason)
	}
	if len(p.notices) > 0 {
		p.Life.waited()
	}
	if p.written > 0 {
		limit := p.underWay()[0].deadline.Add(p.MaxOverdue)
		if cut = !now.Before(limit); !cut {
			wake(limit)
		}
	}
	p.sweep(now)
	return cut, next
}

// end records that the i-th command under way was not answered. It reports that once.
func (p *Pipeline[T]) end(i int, err error) *Op[T] {
	o := &p.underWay()[i]
	answer := quorum.Unsent
	if i < p.written || o.Command.CleansUp() { // something of ours may be on the server
		answer = quorum.Unknown
	}
	if !o.reported {
		o.reported, o.unsent = true, answer == quorum.Unsent
		p.notices = append(p.notices, Notice[T]{o.Item, answer, err})
	}
	return o
}

// SentAgain reports whether clean-up that ended with an error is still sent, until its time is over. It is if there was
// no connection, no answer, or an answer of a server that was the wrong one or not ready. It is not after any other
// answer, or if the node did not accept it.
func SentAgain(err error) bool {
	var unconnected *nodeerr.ConnectError
	return errors.As(err, &unconnected) || errors.Is(err, nodeerr.ErrBroken) || errors.Is(err, nodeerr.ErrTimeout) ||
		errors.Is(err, nodeerr.ErrSuspended) || Wrong(err) || NotYet(err)
}

// sweep drops the waiting commands that have ended and will not be written. Clean-up is still written while it can
// change something.
func (p *Pipeline[T]) sweep(now time.Time) {
	waiting := p.underWay()[p.written:]
	var unsent map[string]*Command // acquires that were never written, by their tokens
	for i := range waiting {
		o := &waiting[i]
		switch acquire := unsent[o.Command.Token]; {
		case o.Command.CleansUp():
			o.needless = o.needless || acquire != nil && o.Command.ends(acquire)
		case o.unsent && o.Command.Votes() && o.Command.Token != "":
			if unsent == nil {
				unsent = map[string]*Command{}
			}
			unsent[o.Command.Token] = o.Command
		}
	}
	kept := slices.DeleteFunc(waiting, func(o Op[T]) bool {
		return o.reported && (!o.Command.CleansUp() || o.needless || !o.until.IsZero() && !now.Before(o.until))
	})
	p.ops = p.ops[:len(p.ops)-len(waiting)+len(kept)]
}

// Notices returns the ends that were not reported yet.
func (p *Pipeline[T]) Notices() []Notice[T] {
	notices := p.notices
	p.notices = nil
	return notices
}

// Close refuses every later command, and queues last behind the commands before it.
func (p *Pipeline[T]) Close(now time.Time, last Op[T]) {
	p.closed = true
	p.Life.hurry()
	last.deadline = now.Add(p.Timeout)
	p.ops = append(p.ops, last)
}

// Closed reports whether Close was called.
func (p *Pipeline[T]) Closed() bool { return p.closed }
