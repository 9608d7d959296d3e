package wire

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Life decides how a node is connected to its server: when to dial, and for which reason commands are refused meanwhile. Like the
// [Pipeline] beside it, it does no I/O, reads no clock and starts no goroutine.
type Life struct {
	// The pause before the next attempt to connect doubles from Least to Most. There is none after a connection that was useful: it
	// has served a caller's command, or has lasted for Most.
	Least, Most time.Duration
	Random      func(below time.Duration) time.Duration // shortens each pause by up to half; nil: it does not

	state   State
	reason  error         // why there is no connection; nil if nothing has failed since there was one
	greeted time.Time     // when the connection was ready
	pause   time.Duration // the last, before it was shortened; 0 after a useful connection
	until   time.Time     // its end
}

// State is what a node does about its connection.
type State uint8

// The states.
const (
	Idle    State = iota // the node was never used: commands are queued
	Dialing              // an attempt to connect is under way
	Serving              // there is a connection: commands are written
	Pausing              // before the next attempt: commands are refused
)

// String returns the state in lower case.
func (s State) String() string {
	return [...]string{Idle: "idle", Dialing: "dialing", Serving: "serving", Pausing: "pausing"}[s]
}

// legal has the changes of state that there are.
var legal = map[[2]State]bool{
	{Idle, Dialing}:    true,
	{Dialing, Serving}: true,
	{Dialing, Pausing}: true,
	{Serving, Dialing}: true,
	{Serving, Pausing}: true,
	{Pausing, Dialing}: true,
}

// Illegal is called with a change of state that is not in the table. It is nil in programs, where a panic would help nobody.
var Illegal func(change string)

func (l *Life) become(s State) {
	if !legal[[2]State{l.state, s}] && Illegal != nil {
		Illegal(fmt.Sprintf("a node that is %v becomes %v", l.state, s))
	}
	l.state = s
}

// State returns the present state.
func (l *Life) State() State { return l.state }

// Refusal returns why commands are refused; nil if they are queued.
func (l *Life) Refusal() error {
	if l.state == Serving {
		return nil
	}
	return l.reason
}

// Dial returns when to begin the next attempt to connect. If that is not later than now, the attempt begins.
func (l *Life) Dial(now time.Time) (at time.Time) {
	switch {
	case l.state == Dialing:
		return now
	case l.state == Pausing && now.Before(l.until):
		return l.until
	}
	l.become(Dialing)
	return now
}

// Greeted records that the connection is ready.
func (l *Life) Greeted(now time.Time) {
	l.become(Serving)
	l.reason, l.greeted = nil, now
}

// failed records an attempt that failed.
func (l *Life) failed(now time.Time, err error) {
	l.reason = err
	l.rest(now)
}

// silent records that the first attempt has not ended within the timeout of a command.
func (l *Life) silent() {
	if l.state == Dialing && l.reason == nil {
		l.reason = &nodeerr.ConnectError{Err: nodeerr.ErrTimeout}
	}
}

// ended records the end of the connection. served reports that it has answered a caller's command, and kept to the protocol.
func (l *Life) ended(now time.Time, served bool) {
	if served || now.Sub(l.greeted) >= l.Most {
		l.pause = 0
		l.become(Dialing)
		return
	}
	l.rest(now)
}

// rest begins a pause.
func (l *Life) rest(now time.Time) {
	l.pause = min(max(2*l.pause, l.Least), l.Most)
	l.until = now.Add(l.pause)
	if l.Random != nil {
		l.until = l.until.Add(-l.Random(l.pause / 2))
	}
	l.become(Pausing)
}

// hurry ends a pause, as the node is about to be closed: what it still has to deliver has one more attempt.
func (l *Life) hurry() { l.until = time.Time{} }
