package engine

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
)

// Servers know nothing of the calls that wait. So that people can count the processes that wait for a name (PUBSUB
// NUMSUB), each process subscribes to a channel of the name while its calls wait. It does so once a call has waited for
// showAfter, because a subscription costs each node a command, and so does its end. Nobody publishes on the channel.

// showAfter is after which wait a process is shown, and how often it looks whether calls still wait.
const showAfter = time.Second

// lookLaterLocked sets the timer that looks whether calls wait.
func (e *Entry) lookLaterLocked(after time.Duration) {
	w := e.Waiting
	w.looking = true
	if w.looks == nil {
		w.looks = e.engine.Clock.AfterFunc(after, e.look)
	} else {
		w.looks.Reset(after)
	}
}

// look runs when the timer of lookLaterLocked fires. It shows that calls wait, or no longer shows it. The timer rests
// while no call waits.
func (e *Entry) look() {
	e.Enter()
	defer e.Exit()
	if e.gone {
		return
	}
	w, after := e.Waiting, showAfter
	if w.looking = e.Name.Waits(); !w.looking {
		e.hideLocked()
		return
	}
	if calls := e.Name.Waiting(); len(w.shown) == 0 && len(calls) > 0 {
		if waited := e.engine.Clock.Now().Sub(calls[0].Of.(*Waiter).Since); waited < showAfter {
			after = showAfter - waited
		} else {
			e.showLocked()
		}
	}
	e.lookLaterLocked(after)
}

// showLocked subscribes to the channel on all nodes that have room for it.
func (e *Entry) showLocked() {
	e.engine.listen() // nodes subscribe only for a listener
	for _, n := range e.engine.Nodes {
		if n.Attend(form.WaitChannel(e.Name.Key())) {
			e.Waiting.shown = append(e.Waiting.shown, n)
		}
	}
}

// hideLocked leaves the channel on the nodes that have subscribed to it.
func (e *Entry) hideLocked() {
	for _, n := range e.Waiting.shown {
		n.Leave(form.WaitChannel(e.Name.Key()))
	}
	e.Waiting.shown = nil
}
