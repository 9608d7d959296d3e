package engine

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Waiter is a call that waits for a name: the Of of its [Call]. It is woken when it has a Round or is Offered one, when a lock was
// handed off to it, and when it is refused, which it may find long after that: when that lock has expired, or its context has ended. With a
// Round it stays at the head of the queue until it tells what came of it; with a lock or a refusal it has left the queue. All but Woken is
// under the mutex of the entry.
type Waiter struct {
	Call
	For     any           // the call of the program; nil if none is told of its rounds
	By      any           // what the program has of the Waiter
	Token   string        // of its next round; "" is a random one
	Several bool          // it takes the locks of other names too, in rounds of its own
	Woken   chan struct{} // has room for one

	Round   *Acquire // that has been begun for it
	Offered bool     // a round over several names is to begin
}

// Waiting is what an Entry has of the calls that wait. It is under the mutex of the entry.
type Waiting struct {
	Lost      any         // what the program has made of the last round that was lost; nil if none was since the lock was won or handed off
	RingNoted time.Time   // when the program was last told of a ring of calls; zero if never
	timer     clock.Timer // for the Tick of the name; nil if it never asked for one
	notice    clock.Timer // for Events.WaitsLong; nil if it was never set
	noting    bool        // notice is set
}

// waitsLocked makes the Waiting of the entry, if there is none yet.
func (e *Entry) waitsLocked(w *Waiter) {
	w.Of = w
	if e.Waiting == nil {
		e.Waiting = new(Waiting)
	}
}

// WaitLocked puts a call into the queue.
func (e *Entry) WaitLocked(w *Waiter) {
	e.waitsLocked(w)
	e.doLocked(e.Name.Wait(nil, &w.Call))
}

// WaitOnLocked makes a first call wait, the round of which has not won: it finds the round, and goes on.
func (e *Entry) WaitOnLocked(first *Call, w *Waiter, r *Acquire) {
	e.waitsLocked(w)
	e.Name.WaitOn(first, &w.Call)
	w.Round = r
	w.wake()
}

// GiveUpLocked ends the wait of a call, unless it has ended.
func (e *Entry) GiveUpLocked(w *Waiter) { e.doLocked(e.Name.Leave(nil, &w.Call)) }

// offeredLocked begins a round for the call.
func (w *Waiter) offeredLocked(e *Entry) {
	if w.Several {
		w.Offered = true
	} else {
		w.Round = e.AskLocked(&w.Call, w.Token, w.For)
	}
	w.wake()
}

// wake does not block.
func (w *Waiter) wake() {
	select {
	case w.Woken <- struct{}{}:
	default: // it has not looked yet
	}
}

// NextLocked returns the call that waits here to which a lock is to be handed off; nil if the lock is to be released.
func (h *Held) NextLocked(from *Hold) *Waiter {
	to := h.Name.Next(&h.Lease, &from.Hold)
	if to == nil {
		return nil
	}
	return to.Of.(*Waiter)
}

// HandOffLocked hands the lock off to the call that NextLocked has returned, as a holder, and returns the hold of that one.
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

// NoteWait tells the program when a wait for the name has lasted for long ([Events]).
func (e *Entry) NoteWait(long time.Duration) {
	e.Enter()
	defer e.Exit()
	if !e.Waiting.noting {
		e.NoteAgainLocked(long)
	}
}

// NoteAgainLocked tells it once more, after a time.
func (e *Entry) NoteAgainLocked(after time.Duration) {
	w := e.Waiting
	w.noting = true
	if w.notice == nil {
		w.notice = e.engine.Clock.AfterFunc(after, func() { e.engine.Events.WaitsLong(e) })
	} else {
		w.notice.Reset(after)
	}
}

// WaitersLocked returns the call that has waited for the longest, and how many wait. If none does, the program is no longer told.
func (e *Entry) WaitersLocked() (first *Waiter, n int) {
	calls := e.Name.Waiting()
	if len(calls) == 0 {
		e.Waiting.noting = false
		return nil, 0
	}
	return calls[0].Of.(*Waiter), len(calls)
}

// stop ends what goes on by itself.
func (w *Waiting) stop() {
	for _, t := range []clock.Timer{w.timer, w.notice} {
		if t != nil {
			t.Stop()
		}
	}
}
