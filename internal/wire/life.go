package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Life decides how a node is connected to its server: when to dial, when a connection ends, and for which reason
// commands are refused meanwhile. Like the [Pipeline] beside it, it does no I/O, reads no clock and starts no
// goroutine.
type Life struct {
	// The pause before the next attempt to connect doubles from Least to Most, and is shortened by up to half. Some
	// attempts cost the server much: a TLS handshake, or a time-out. After these the pause doubles to MostCostly, and is
	// shortened by up to all of it.
	Least, Most, MostCostly time.Duration
	// LookEvery is the time between two looks, shortened by up to half: see [Life.Look]. 0 means that there are none.
	LookEvery time.Duration
	Random    func(below time.Duration) time.Duration // nil means that nothing is shortened

	state   State
	met     bool      // an attempt has ended
	reason  error     // why there is no connection, or why it is to end; nil if nothing has failed
	silent  bool      // a command has waited for this attempt in vain
	cheap   bool      // the last attempt has cost the server little, so that a command may end the pause
	greeted time.Time // when the connection was ready
	// down is since when there has been no connection that was useful or lasted for Most. It is zero until an attempt has
	// failed or a connection has ended.
	down   time.Time
	failed time.Time // when the last attempt failed, or the last connection ended
	// pause is the last pause, before it was shortened. It is 0 after a connection that was useful or lasted for Most.
	pause   time.Duration
	until   time.Time // the end of the pause
	looks   time.Time // when the next look is due
	hangUps int       // how many attempts in succession ended in the greeting, without an answer that says why
	less    bool      // a lesser greeting was answered, and no full one since
}

// Greeting is how a node greets a server on a new connection. Some proxies hang up at a command that they do not know.
type Greeting uint8

// The greetings.
const (
	Full      Greeting = iota
	WithRESP2          // HELLO is left out
	Bare               // INFO and CLIENT are left out too, so that nobody knows which server it is
)

// Greeting returns the greeting of the next attempt. One hang-up means nothing, because the server may have been
// stopped.
func (l *Life) Greeting() Greeting { return [...]Greeting{Full, Full, WithRESP2, Bare}[l.hangUps%4] }

// Doubts reports whether the connection must not be used although a server has answered the greeting of this attempt.
// Some proxies hang up while the server behind them is away, and it may be back by now. The attempt then goes on with a
// full greeting. If the proxy hangs up on that one too, the next answer to a lesser greeting is believed.
func (l *Life) Doubts() bool {
	if l.Greeting() == Full || l.less {
		return false
	}
	l.less, l.hangUps = true, 0
	return true
}

const (
	// A command ends a pause that began at least wakeAfter ago. If the outage has lasted for longOutage, the pause must
	// have begun wakeLater ago.
	wakeAfter  = 50 * time.Millisecond
	wakeLater  = 250 * time.Millisecond
	longOutage = 10 * time.Second
	// wantedFor is for how long after an outage began a node with listeners counts as one that gets commands all the time.
	// A server that has restarted without data grants locks to others at once. A holder does not know that until the node
	// is connected again.
	wantedFor = 3 * time.Second
)

// HangUp is the end of a connection while it is greeted, without an answer that says why.
type HangUp struct{ Err error }

func (e *HangUp) Error() string { return e.Err.Error() }

// Unwrap returns the error of the connection.
func (e *HangUp) Unwrap() error { return e.Err }

// State is the state of the connection of a node.
type State uint8

// The states.
const (
	Idle    State = iota // the node was never used: commands are queued
	Dialing              // an attempt to connect is under way: commands are queued, unless one has waited for it in vain
	Serving              // there is a connection: commands are written
	Leaving              // the server is the wrong one: commands are queued, and the answers that are missing are awaited
	Pausing              // the node waits before the next attempt: commands are refused, unless one may end the pause
)

// String returns the state in lower case.
func (s State) String() string {
	return [...]string{Idle: "idle", Dialing: "dialing", Serving: "serving", Leaving: "leaving", Pausing: "pausing"}[s]
}

// legal is the changes of state that may happen.
var legal = map[[2]State]bool{
	{Idle, Dialing}:    true,
	{Dialing, Serving}: true,
	{Dialing, Pausing}: true,
	{Serving, Leaving}: true,
	{Serving, Dialing}: true,
	{Serving, Pausing}: true,
	{Leaving, Dialing}: true,
	{Leaving, Pausing}: true,
	{Pausing, Dialing}: true,
}

// Illegal is called with a change of state that is not in the table. It is nil in programs, where a panic would help
// nobody.
var Illegal func(change string)

// become changes the state. It reports a change that legal does not allow.
func (l *Life) become(s State) {
	if !legal[[2]State{l.state, s}] && Illegal != nil {
		Illegal(fmt.Sprintf("a node that is %v becomes %v", l.state, s))
	}
	l.state, l.silent = s, false
}

// Met reports whether an attempt to connect has ended. Until then commands wait for the first one.
func (l *Life) Met() bool { return l.met }

// State returns the present state.
func (l *Life) State() State { return l.state }

// Reason returns why there is no connection, or why the connection is to end. It is nil if nothing has failed.
func (l *Life) Reason() error { return l.reason }

// Refusal returns why commands are refused; nil if they are queued.
func (l *Life) Refusal() error {
	if l.state == Dialing || l.state == Pausing {
		return l.reason
	}
	return nil
}

// Dial returns when to begin the next attempt to connect. If that is not later than now, the attempt begins. listened
// means that the node has listeners.
func (l *Life) Dial(now time.Time, listened bool) (at time.Time) {
	switch l.state {
	case Dialing:
		return now
	case Pausing:
		at = l.until
		if wake := l.failed.Add(wakeAfter); listened && l.cheap && wake.Before(at) && wake.Before(l.down.Add(wantedFor)) {
			at = wake
		}
		if now.Before(at) {
			return at
		}
	}
	l.become(Dialing)
	return now
}

// wanted records that a command is sent, and reports whether that ends a pause.
func (l *Life) wanted(now time.Time) (wakes bool) {
	switch {
	case l.state == Dialing && l.cheap && !l.silent:
		l.reason = nil
	case l.state == Pausing && l.cheap && !now.Before(l.failed.Add(l.wakeAfter(now))):
		l.reason = nil
		l.become(Dialing)
		return true
	}
	return false
}

// wakeAfter returns how long after a failed attempt a command may end the pause.
func (l *Life) wakeAfter(now time.Time) time.Duration {
	if now.Sub(l.down) >= longOutage {
		return wakeLater
	}
	return wakeAfter
}

// greet records that the connection is ready.
func (l *Life) greet(now time.Time) {
	l.become(Serving)
	l.less = l.Greeting() != Full
	l.met, l.reason, l.greeted, l.hangUps = true, nil, now, 0
	l.lookLater(now)
}

func (l *Life) lookLater(now time.Time) { l.looks = now.Add(l.LookEvery - l.shorter(l.LookEvery/2)) }

// Look reports whether it is time to look to which server a new connection would lead. next is when it is time again,
// or zero for never. A name may move or fail over to another server while the connected one goes on answering.
func (l *Life) Look(now time.Time) (due bool, next time.Time) {
	if l.LookEvery == 0 || l.state != Serving {
		return false, time.Time{}
	}
	if due = !now.Before(l.looks); due {
		l.lookLater(now)
	}
	return due, l.looks
}

// errAnother is why a connection that works is ended.
var errAnother = errors.New("nodeerr: another server has taken its place")

// Found compares the server that was found, by a look or over the connection, with the server that was connected. If
// they are not the same, the connection ends. A server that does not identify itself counts as the same. A look that
// failed changes nothing either, because the present connection works.
func (l *Life) Found(connected, found Identity) {
	if connected.Process != "" && found.Process != "" && !found.Holds(connected.Stamp()) {
		l.Wrong(errAnother)
	}
}

// Moved records that the server is at another address than the one that the node has connected to, or tries to connect
// to. A pause ends.
func (l *Life) Moved() {
	l.Wrong(errAnother)
	l.hurry()
}

// fail records an attempt that failed.
func (l *Life) fail(now time.Time, err error, cheap bool) {
	l.met = true
	if l.hangUps++; !errors.As(err, new(*HangUp)) {
		l.hangUps, l.less = 0, false
	}
	l.rest(now, err, cheap)
}

// waited records that a command has waited for this attempt for its whole timeout. Later commands do not wait as well.
func (l *Life) waited() {
	if l.state == Dialing && l.reason == nil {
		l.silent, l.reason = true, &nodeerr.ConnectError{Err: nodeerr.ErrTimeout}
	}
}

// Wrong records an answer which shows that the server is the wrong one. No further command is written. The connection
// ends when the commands that were written have been answered.
func (l *Life) Wrong(reason error) {
	if l.state == Serving {
		l.become(Leaving)
		l.reason = reason
	}
}

// Use is how useful a connection has been.
type Use uint8

// The uses, in ascending order.
const (
	Unused  Use = iota
	Served      // a caller's command was answered
	Granted     // a command that changes a key was carried out
)

// useful reports whether a connection that ends has been useful. Then the next one is made at once. why is the reason
// of the end.
func (l *Life) useful(why error, use Use) bool {
	switch {
	case l.state != Leaving:
		return use > Unused && !errors.Is(why, nodeerr.ErrProtocol)
	case errors.Is(l.reason, errAnother): // the other server is there
		return true
	}
	return use == Granted // a server that is wrong from the start counts as one that refuses
}

// end records the end of the connection. why is the reason, unless the server was the wrong one.
func (l *Life) end(now time.Time, why error, use Use, cheap bool) {
	leaving := l.state == Leaving
	if !l.useful(why, use) && (leaving || now.Sub(l.greeted) < l.Most) {
		if first := l.pause == 0; !leaving && !first { // in the first pause, which is short, commands are queued
			l.reason = &nodeerr.ConnectError{Err: why}
		}
		l.rest(now, l.reason, cheap || leaving)
		return
	}
	l.become(Dialing)
	l.reason, l.pause, l.cheap, l.down, l.failed = nil, 0, true, now, now
}

// rest begins a pause.
func (l *Life) rest(now time.Time, reason error, cheap bool) {
	l.reason, l.cheap, l.failed = reason, cheap, now
	if l.down.IsZero() {
		l.down = now
	}
	most, shares := l.MostCostly, time.Duration(1) // one of the shares may be left out
	if cheap {
		most, shares = l.Most, 2
	}
	l.pause = min(max(2*l.pause, l.Least), most)
	l.until = now.Add(l.pause - l.shorter(l.pause/shares))
	l.become(Pausing)
}

// shorter returns by how much a time is shortened. That is less than most, unless most is 0.
func (l *Life) shorter(most time.Duration) time.Duration {
	if l.Random == nil || most == 0 {
		return 0
	}
	return l.Random(most)
}

// hurry ends a pause. The node is about to be closed, and the commands that it still has to deliver get one more
// attempt. Or it is known where the server is.
func (l *Life) hurry() { l.until = time.Time{} }
