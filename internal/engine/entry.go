package engine

import (
	"runtime"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// usualNodes is the number of nodes for whose Acts there is room on the stack.
const usualNodes = 7

// Entry is one name of an Engine. It carries out the Acts of its lock.Name, and of the rounds and locks of the name.
type Entry struct {
	engine *Engine
	// mu also guards the rounds and the locks of the name. It is held while commands are sent. No goroutine holds the
	// mutexes of two entries.
	mu sync.Mutex
	// The program may call methods of Name that return no Acts. The Entry calls the others.
	Name    lock.Name
	Waiting *Waiting // nil before a call has waited
	gone    bool     // the Engine has discarded the entry; its locks and rounds go on
	settled *Round   // the first of the rounds that ended since mu was taken; Round.next is the next one
}

// Enter takes the mutex.
func (e *Entry) Enter() { e.mu.Lock() }

// Exit releases the mutex, and reports the rounds that have ended under it.
func (e *Entry) Exit() {
	r := e.settled
	e.settled = nil
	e.mu.Unlock()
	for r != nil {
		next := r.next
		r.next = nil
		r.finish()
		r = next
	}
}

// LingerLocked lets other goroutines run first if a release now would pass the turn too early. It releases the mutex
// meanwhile. When a lock goes from waiter to waiter, the release of one holder and the acquire of the next are answered
// together. So the first holder may be about to join the queue again.
func (e *Entry) LingerLocked() {
	if e.Name.Deserted() {
		e.Exit()
		runtime.Gosched()
		e.Enter()
	}
}

// goneLocked records that the Engine has discarded the entry. It stops its timers, and no longer shows that calls wait.
func (e *Entry) goneLocked() {
	e.gone = true
	if e.Waiting != nil {
		e.Waiting.stop()
		e.hideLocked()
	}
}

// doLocked carries out the Acts that follow from an input. If a node does not accept a command, that counts as its
// answer.
func (e *Entry) doLocked(acts []lock.Act) {
	if len(acts) == 0 {
		return
	}
	var since time.Time // the start of all commands, because one reading of the clock is enough
	var unsent []int
	for i := 0; i < len(acts); i++ {
		act := &acts[i]
		if act.What != lock.Send {
			e.actLocked(act)
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		err := e.sendLocked(since, act)
		if act.Tag.What != lock.Vote {
			if err != nil {
				acts = e.refusedLocked(acts, act, wire.Unsent(err))
			}
			continue
		}
		r := act.To.(*Round)
		if err != nil {
			unsent = append(unsent, int(act.Tag.Node))
			r.unsentLocked(int(act.Tag.Node), err)
		}
		if last := i+1 == len(acts) || acts[i+1].What != lock.Send || acts[i+1].Tag.What != lock.Vote; last && unsent != nil {
			acts, unsent = r.Unsent(acts, e.engine.Clock, unsent), nil
		}
	}
}

// sendLocked sends the Command of an Act to its node. It returns why the node does not accept the command, or ErrOver
// if it is too late to send it. For a raise it also calls Events.Raising.
func (e *Entry) sendLocked(since time.Time, act *lock.Act) error {
	to, node := act.To, act.Tag.Node
	if !act.At.IsZero() && !e.engine.Clock.Now().Before(act.At) {
		return lock.ErrOver
	}
	switch act.Tag.What {
	case lock.Watch, lock.Heal:
		to = e
	case lock.Raise:
		e.engine.Events.Raising(to.(*Round), int(node), act.Raise.Granted, act.Raise.Token)
	}
	return e.engine.Nodes[node].Send(since, act.Command, to, act.Tag)
}

// refusedLocked handles a command that a node did not accept.
func (e *Entry) refusedLocked(acts []lock.Act, act *lock.Act, reply *wire.Reply) []lock.Act {
	switch to := act.To.(type) {
	case *Round:
		return to.answeredLocked(acts, act.Tag, reply)
	case *swept:
		<-to.done
		return to.Lease.Answered(acts, act.Tag, reply)
	case *Held:
		return to.Lease.Answered(acts, act.Tag, reply)
	}
	if act.Tag.What == lock.Forgotten {
		return acts
	}
	return e.Name.Answered(acts, act.Tag, reply)
}

// actLocked carries out an Act other than Send.
func (e *Entry) actLocked(act *lock.Act) {
	switch act.What {
	case lock.End:
		act.To.(*Round).settleLocked()
	case lock.Renew:
		act.To.(*Held).ArmLocked()
	case lock.Over:
		act.To.(*Held).noticeLocked()
	case lock.AwaitCleanUp:
		r := act.To.(*Round)
		r.timer = e.engine.Clock.AfterFunc(e.engine.Timeout-r.Took(), r.overdue)
	case lock.Again:
		r := act.To.(*Round)
		r.timer = e.engine.Clock.AfterFunc(e.engine.Timeout, r.again)
	case lock.Offer:
		act.Call.Of.(*Waiter).offeredLocked(e)
	case lock.Foreign:
		w := act.Call.Of.(*Waiter)
		e.engine.Events.Refused(w)
		w.wake()
	case lock.Wake:
		e.wakeLocked(act.At)
	case lock.Listen:
		e.engine.listen()
	case lock.Publish:
		m := act.Message
		if m.What == lock.Yours && m.Node == lock.AllNodes {
			e.engine.Events.Turn(e.Name.Key(), len(m.Peers), false)
		}
		e.publishLocked(act)
	case lock.Warn:
		e.engine.Events.Stuck(e.Name.Key(), act.Stuck)
	}
}

// publishLocked sends a message to another Engine. The answer is for the Name if the holder is told that calls wait.
func (e *Entry) publishLocked(act *lock.Act) {
	to := wire.Receiver(nil)
	if act.Tag.What == lock.Announce {
		to = e
	}
	e.engine.publish(act.Message, e.Name.Key(), to, act.Tag)
}

// wakeLocked makes the timer call tick at an instant.
func (e *Entry) wakeLocked(at time.Time) {
	if e.Waiting == nil || e.gone { // no call waits
		return
	}
	w, wait := e.Waiting, at.Sub(e.engine.Clock.Now())
	if w.timer == nil {
		w.timer = e.engine.Clock.AfterFunc(wait, e.tick)
	} else {
		w.timer.Reset(wait)
	}
}

// tick runs when the timer of wakeLocked fires.
func (e *Entry) tick() {
	e.Enter()
	if !e.gone {
		e.doLocked(e.Name.Tick(nil))
	}
	e.Exit()
}

// Reply hands the answer to a command of the queue to the Name, and carries out the Acts that follow. Such a command is
// an observation, or the deletion of a key without a TTL. Reply implements [wire.Receiver].
func (e *Entry) Reply(tag wire.Tag, reply *wire.Reply) {
	if tag.What == lock.Heal && reply.Answer == quorum.Yes {
		e.engine.Events.Healed(e.Name.Key(), int(tag.Node))
	}
	e.Enter()
	if !e.gone {
		e.doLocked(e.Name.Answered(nil, tag, reply))
	}
	e.Exit()
}
