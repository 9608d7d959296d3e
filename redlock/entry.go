package redlock

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// entry is what a Locker has of one name. It carries out what a lock.Name, its rounds and its locks ask for.
type entry struct {
	locker *Locker
	// mu is also that of the rounds and the locks of the name. It is held while commands are sent. Nobody takes the mutexes of two
	// entries.
	mu      sync.Mutex
	name    lock.Name
	gone    bool     // the Locker has discarded it; the locks and rounds that it had go on
	settled *round   // the first of the rounds that have ended since mu was taken; each knows the next
	waiting *waiting // nil before a call has waited
}

// waiting is what an entry has of the calls that wait.
type waiting struct {
	timer      clock.Timer  // for the Tick of the name; nil if it never asked for one
	last       *QuorumError // why the last round was lost; nil means that none was since the lock was won or passed on
	notice     clock.Timer  // for logWait
	noting     bool         // it is set
	ringLogged time.Time    // see logRingOnce
}

func newEntry(l *Locker, key string) *entry {
	e := &entry{locker: l}
	e.name.Begin(&l.rules, key)
	return e
}

// called returns the name, without the prefix.
func (e *entry) called() string { return e.locker.nameOf(e.name.Key()) }

// unlock releases the mutex, and reports the rounds that have ended under it.
func (e *entry) unlock() {
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

// goneLocked ends what goes on by itself.
func (e *entry) goneLocked() {
	e.gone = true
	if w := e.waiting; w != nil {
		if w.timer != nil {
			w.timer.Stop()
		}
		if w.notice != nil {
			w.notice.Stop()
		}
	}
}

// doLocked carries out what has come of an input. A node that does not take a command has answered.
func (e *entry) doLocked(acts []lock.Act) {
	if len(acts) == 0 {
		return
	}
	var since time.Time // of all that is sent, as one reading of the clock is enough
	var refusals []lock.Refusal
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
				acts = e.refusedLocked(acts, act, wire.Reply{Answer: quorum.Unsent, Err: err})
			}
			continue
		}
		r := act.To.(*round)
		if err != nil {
			refusals = append(refusals, lock.Refusal{Node: int(act.Tag.Node), Err: err})
			r.emitVote(act.Tag, wire.Reply{Answer: quorum.Unsent, Err: err})
		}
		if last := i+1 == len(acts) || acts[i+1].What != lock.Send || acts[i+1].Tag.What != lock.Vote; last && refusals != nil {
			acts, refusals = r.Unsent(acts, e.locker.clock, refusals), nil
		}
	}
}

func (e *entry) sendLocked(since time.Time, act *lock.Act) error {
	l, to, node := e.locker, act.To, act.Tag.Node
	if !act.At.IsZero() && !l.clock.Now().Before(act.At) {
		return lock.ErrOver
	}
	switch act.Tag.What {
	case lock.Watch, lock.Heal:
		to = e
	case lock.Raise:
		if l.events.wants(kindRounds) {
			r := to.(*round)
			l.events.emit(event.Raise{
				At: time.Now(), Call: r.call.number(), Name: r.name, Node: int(node), Addr: l.nodes[node].Addr(),
				Granted: act.Raise.Granted, Fence: act.Raise.Token,
			})
		}
	}
	return l.nodes[node].Send(since, act.Command, to, act.Tag)
}

// refusedLocked takes it that a node has not taken a command.
func (e *entry) refusedLocked(acts []lock.Act, act *lock.Act, reply wire.Reply) []lock.Act {
	switch to := act.To.(type) {
	case *round:
		return to.answeredLocked(acts, act.Tag, reply)
	case *heldLock:
		return to.term.Answered(acts, act.Tag, reply)
	case *swept:
		<-to.done
		return to.term.Answered(acts, act.Tag, reply)
	}
	if act.Tag.What == lock.Forgotten {
		return acts
	}
	return e.name.Answered(acts, act.Tag, reply)
}

// actLocked does what is not the sending of a command of the lock.
func (e *entry) actLocked(act *lock.Act) {
	l := e.locker
	switch act.What {
	case lock.End:
		act.To.(*round).settleLocked()
	case lock.Renew:
		act.To.(*heldLock).armLocked()
	case lock.Over:
		act.To.(*heldLock).overLocked()
	case lock.AwaitCleanUp:
		r := act.To.(*round)
		r.timer = l.clock.AfterFunc(l.timeout-r.took(), r.stop)
	case lock.Offer:
		w := act.Call.Of.(*waiter)
		w.round = e.beginLocked(act.Call, &w.req)
		w.wake()
	case lock.Refuse:
		w := act.Call.Of.(*waiter)
		w.refused = e.lastLocked(w, nil)
		w.refused.Reason = ErrForeign // whatever the last round was lost to
		w.wake()
	case lock.Wake:
		e.wakeLocked(act.At)
	case lock.Listen:
		l.names.listen()
	case lock.Publish:
		m := act.Message
		if m.What == lock.Yours && m.Node == lock.AllNodes && l.events.wants(kindTurns) {
			l.events.emit(event.Turn{At: time.Now(), Name: e.called(), Waiting: len(m.Peers)})
		}
		l.publish(m, e.name.Key())
	case lock.Warn:
		var nodes []string
		for _, i := range act.Stuck.Nodes {
			nodes = append(nodes, l.nodes[i].Addr())
		}
		l.events.emit(event.Stuck{At: time.Now(), Name: e.called(), Addrs: nodes, Unchanged: act.Stuck.Unchanged})
	}
}

// wakeLocked has tick called at an instant.
func (e *entry) wakeLocked(at time.Time) {
	w, wait := e.waiting, at.Sub(e.locker.clock.Now())
	switch {
	case w == nil || e.gone: // nobody waits
	case w.timer == nil:
		w.timer = e.locker.clock.AfterFunc(wait, e.tick)
	default:
		w.timer.Reset(wait)
	}
}

func (e *entry) tick() {
	e.mu.Lock()
	if !e.gone {
		e.doLocked(e.name.Tick(nil))
	}
	e.unlock()
}

// Reply implements [wire.Receiver] for what the calls that wait are about.
func (e *entry) Reply(tag wire.Tag, reply wire.Reply) {
	l, node := e.locker, int(tag.Node)
	if tag.What == lock.Heal && reply.Answer == quorum.Yes {
		l.events.emit(event.Heal{At: time.Now(), Name: e.called(), Node: node, Addr: l.nodes[node].Addr()})
	}
	e.mu.Lock()
	if !e.gone {
		e.doLocked(e.name.Answered(nil, tag, reply))
	}
	e.unlock()
}
