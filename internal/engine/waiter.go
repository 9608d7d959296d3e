package engine

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Waiter is a call that waits for a name. It is the Of of its [Call]. The Engine wakes it when it has a Round or is
// Offered one. It also wakes it when a lock was handed off to it, and when it is refused. It may notice that long
// afterwards, when the lock that was handed off has expired, or when its context has ended.
//
// With a Round it keeps its place, at the head of the queue or beside it, until it reports the outcome. With a lock or
// a refusal it has left the queue. The mutex of the entry guards all fields but Woken.
type Waiter struct {
	Call
	For     any           // the Of of its rounds
	By      any           // the program's own value for the Waiter
	Since   time.Time     // when its wait began
	Token   string        // the token of its next round, or "" for a random one
	Several bool          // it takes the locks of other names too, and begins its rounds itself
	Woken   chan struct{} // has room for one

	Round   *Acquire // the round that was begun for it
	Offered bool     // it is to begin a round over several names
}

// Waiting is the state of an Entry that belongs to the calls that wait. The mutex of the entry guards it.
type Waiting struct {
	// Lost is the program's own value for the last round that was lost. It is nil if none was lost since the lock was won
	// or handed off.
	Lost      any
	RingNoted time.Time   // when the program last noted a ring of calls that wait for each other; zero if never
	timer     clock.Timer // for the Tick of the name; nil if the name never asked for one
	notice    clock.Timer // for Events.WaitsLong; nil if it was never set
	noting    bool        // notice is set
	looks     clock.Timer // for look; nil before a call has waited
	looking   bool        // looks is set
	shown     []*Node     // the nodes that attend the channel of the name, because calls wait
}

// waitsLocked prepares a Waiter, and makes the Waiting of the entry if there is none yet. It sets the timer of look.
func (e *Entry) waitsLocked(w *Waiter) {
	w.Of = w
	if e.Waiting == nil {
		e.Waiting = new(Waiting)
	}
	if !e.Waiting.looking {
		e.lookLaterLocked(showAfter)
	}
}

// WaitLocked puts a call into the queue.
func (e *Entry) WaitLocked(w *Waiter) {
	e.waitsLocked(w)
	e.doLocked(e.Name.Wait(nil, &w.Call))
}

// WaitOnLocked makes a first call wait, after its round was not won. The Waiter gets that round, and is woken to report
// its outcome.
func (e *Entry) WaitOnLocked(first *Call, w *Waiter, r *Acquire) {
	e.waitsLocked(w)
	e.Name.WaitOn(first, &w.Call)
	w.Round = r
	w.wake()
}

// GiveUpLocked ends the wait of a call, unless the wait has ended.
func (e *Entry) GiveUpLocked(w *Waiter) { e.doLocked(e.Name.Leave(nil, &w.Call)) }

// offeredLocked begins a round for the call, or offers it a round over several names.
func (w *Waiter) offeredLocked(e *Entry) {
	if w.Several {
		w.Offered = true
	} else {
		w.Round = e.AskLocked(&w.Call, w.Token, w.For)
	}
	w.wake()
}

// wake wakes the call. It does not block.
func (w *Waiter) wake() {
	select {
	case w.Woken <- struct{}{}:
	default: // it was woken before, and did not look since
	}
}

// NextLocked returns the Waiter to which the lock is to be handed off. It returns nil if the lock is to be released.
func (h *Held) NextLocked(from *Hold) *Waiter {
	to := h.Name.Next(&h.Lease, &from.Hold)
	if to == nil {
		return nil
	}
	return to.Of.(*Waiter)
}

// HandOffLocked hands the lock off to the Waiter that NextLocked has returned. by is the next holder, whose hold is
// returned.
func (h *Held) HandOffLocked(from *Hold, to *Waiter, by *Holder) quorum.Hold {
	h.Holder = by
	acts, hold := h.Name.HandOff(nil, &h.Lease, &from.Hold, &by.Want)
	from.endLocked(true)
	h.doLocked(acts)
	by.Fence = h.Lease.Fence()
	h.goOnLocked()
	h.Waiting.Lost = nil
	to.wake()
	return hold
}

// NoteWait schedules a call of Events.WaitsLong after a time, unless one is scheduled already.
func (e *Entry) NoteWait(long time.Duration) {
	e.Enter()
	defer e.Exit()
	if !e.Waiting.noting {
		e.NoteAgainLocked(long)
	}
}

// NoteAgainLocked schedules a call of Events.WaitsLong after a time.
func (e *Entry) NoteAgainLocked(after time.Duration) {
	w := e.Waiting
	w.noting = true
	if w.notice == nil {
		w.notice = e.engine.Clock.AfterFunc(after, func() { e.engine.Events.WaitsLong(e) })
	} else {
		w.notice.Reset(after)
	}
}

// WaitersLocked returns the call that has waited for the longest, and how many calls wait. If no call waits, the
// notifications end until the next NoteWait.
func (e *Entry) WaitersLocked() (first *Waiter, n int) {
	calls := e.Name.Waiting()
	if len(calls) == 0 {
		e.Waiting.noting = false
		return nil, 0
	}
	return calls[0].Of.(*Waiter), len(calls)
}

// stop stops the timers.
func (w *Waiting) stop() {
	for _, t := range []clock.Timer{w.timer, w.notice, w.looks} {
		if t != nil {
			t.Stop()
		}
	}
}
