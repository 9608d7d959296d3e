package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Life decides how a node is connected to its server: when to dial, what ends a connection, and for which reason commands are refused
// meanwhile. Like the [Pipeline] beside it, it does no I/O, reads no clock and starts no goroutine.
type Life struct {
	// A pause before the next attempt doubles from Least to Most, and is shortened by up to half. After an attempt that has cost the server
	// much (a TLS handshake, or a time-out) it doubles to MostCostly, and any part of it is left out.
	Least, Most, MostCostly time.Duration
	// A connection is looked at each LookEvery, shortened by up to half; 0: never.
	LookEvery time.Duration
	Random    func(below time.Duration) time.Duration // nil: nothing is shortened

	state   State
	met     bool          // an attempt has ended
	reason  error         // why there is no connection, and commands are refused; nil if they are queued
	silent  bool          // a command has waited for this attempt in vain
	cheap   bool          // the last attempt has cost the server little, so that a command may end the pause
	greeted time.Time     // when the connection was ready
	down    time.Time     // since when there has been none that was useful; zero before the first attempt has ended
	failed  time.Time     // when the last attempt, or the connection, ended
	pause   time.Duration // the last, before it was shortened; 0 after a connection that was useful
	until   time.Time     // its end
	looks   time.Time     // when to look next
	hangUps int           // how many attempts in succession ended in the greeting, without an answer that says why
	less    bool          // a greeting that is not full was answered, and none that is full since
}

// Greeting is what is said in a greeting. Some proxies hang up when they are asked what they do not know.
type Greeting uint8

// The greetings.
const (
	Full      Greeting = iota
	WithRESP2          // HELLO is left out
	Bare               // INFO and CLIENT are left out too: nobody knows then which server it is
)

// Greeting returns what the next attempt says. To hang up once is no sign: that may have been a server that was stopped.
func (l *Life) Greeting() Greeting { return [...]Greeting{Full, Full, WithRESP2, Bare}[l.hangUps%4] }

// Doubts is called when a server has answered the greeting of this attempt. It reports whether the connection must not be used: some
// proxies hang up while the server behind them is away, and it may be back by now. The attempt then goes on with a full greeting. If the
// proxy hangs up on that one too, the next answer to a lesser greeting is believed.
func (l *Life) Doubts() bool {
	if l.Greeting() == Full || l.less {
		return false
	}
	l.less, l.hangUps = true, 0
	return true
}

const (
	// A command ends a pause that began wakeAfter ago, or wakeLater once the outage has lasted for longOutage.
	wakeAfter  = 50 * time.Millisecond
	wakeLater  = 250 * time.Millisecond
	longOutage = 10 * time.Second
	// wantedFor is for how long a node that somebody listens to is taken for one that is wanted all the time. A server that has
	// restarted without data grants to others at once: until then a holder does not know.
	wantedFor = 3 * time.Second
)

// HangUp is the end of a connection while it is greeted, without an answer that says why.
type HangUp struct{ Err error }

func (e *HangUp) Error() string { return e.Err.Error() }

// Unwrap returns the error of the connection.
func (e *HangUp) Unwrap() error { return e.Err }

// State is what a node does about its connection.
type State uint8

// The states.
const (
	Idle    State = iota // the node was never used: commands are queued
	Dialing              // an attempt to connect is under way: commands are queued, unless one has waited for it in vain
	Serving              // there is a connection: commands are written
	Leaving              // the server is the wrong one: commands are queued, and the answers that are missing are awaited
	Pausing              // before the next attempt: commands are refused, unless one may end the pause
)

// String returns the state in lower case.
func (s State) String() string {
	return [...]string{Idle: "idle", Dialing: "dialing", Serving: "serving", Leaving: "leaving", Pausing: "pausing"}[s]
}

// legal has the changes of state that there are.
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

// Illegal is called with a change of state that is not in the table. It is nil in programs, where a panic would help nobody.
var Illegal func(change string)

func (l *Life) become(s State) {
	if !legal[[2]State{l.state, s}] && Illegal != nil {
		Illegal(fmt.Sprintf("a node that is %v becomes %v", l.state, s))
	}
	l.state, l.silent = s, false
}

// Met reports whether an attempt to connect has ended: until then commands wait for the first.
func (l *Life) Met() bool { return l.met }

// State returns the present state.
func (l *Life) State() State { return l.state }

// Reason returns why there is no connection, or is to be none; nil if nothing has failed.
func (l *Life) Reason() error { return l.reason }

// Refusal returns why commands are refused; nil if they are queued.
func (l *Life) Refusal() error {
	if l.state == Dialing || l.state == Pausing {
		return l.reason
	}
	return nil
}

// Dial returns when to begin the next attempt to connect. If that is not later than now, the attempt begins. listened reports that
// somebody listens to the node.
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

// wanted records that a command is sent. It reports whether that ends a pause.
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

// Look reports whether it is time to look which server a new connection would lead to, and when it is time next; zero if never. A name
// moves, or fails over, while the server that is connected goes on answering.
func (l *Life) Look(now time.Time) (due bool, next time.Time) {
	if l.LookEvery == 0 || l.state != Serving {
		return false, time.Time{}
	}
	if due = !now.Before(l.looks); due {
		l.lookLater(now)
	}
	return due, l.looks
}

// errAnother is why a connection ends that works.
var errAnother = errors.New("nodeerr: another server has taken its place")

// Found takes which server was found, by a look or over the connection, and which one had been connected. One that does not say which it is
// counts as the same. So does a look that failed: the connection at hand works.
func (l *Life) Found(connected, found Identity) {
	if connected.Process != "" && found.Process != "" && !found.Holds(connected.Stamp()) {
		l.Wrong(errAnother)
	}
}

// fail records an attempt that failed.
func (l *Life) fail(now time.Time, err error, cheap bool) {
	l.met = true
	if l.hangUps++; !errors.As(err, new(*HangUp)) {
		l.hangUps, l.less = 0, false
	}
	l.rest(now, err, cheap)
}

// waited records that a command has waited for this attempt for all of its timeout: others are not to wait as well.
func (l *Life) waited() {
	if l.state == Dialing && l.reason == nil {
		l.silent, l.reason = true, &nodeerr.ConnectError{Err: nodeerr.ErrTimeout}
	}
}

// Wrong records an answer which shows that the server is not the one to be asked. No further command is written, and the connection
// ends when those that were have been answered.
func (l *Life) Wrong(reason error) {
	if l.state == Serving {
		l.become(Leaving)
		l.reason = reason
	}
}

// Use is what a connection has been good for.
type Use uint8

// The uses, each of which is more than the one before.
const (
	Unused  Use = iota
	Served      // a caller's command was answered
	Granted     // one that changes something was carried out
)

// useful reports whether a connection that ends, and why, has served its purpose: the next is made at once then.
func (l *Life) useful(why error, use Use) bool {
	switch {
	case l.state != Leaving:
		return use > Unused && !errors.Is(why, nodeerr.ErrProtocol)
	case errors.Is(l.reason, errAnother): // which is there
		return true
	}
	return use == Granted // a server that is wrong from the start counts as one that refuses
}

// end records the end of the connection, and why it ended unless it was the wrong one.
func (l *Life) end(now time.Time, why error, use Use, cheap bool) {
	leaving := l.state == Leaving
	if !l.useful(why, use) && (leaving || now.Sub(l.greeted) < l.Most) {
		if first := l.pause == 0; !leaving && !first { // what comes in the first pause, which is short, is queued
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
	most, shares := l.MostCostly, time.Duration(1) // one of which may be left out
	if cheap {
		most, shares = l.Most, 2
	}
	l.pause = min(max(2*l.pause, l.Least), most)
	l.until = now.Add(l.pause - l.shorter(l.pause/shares))
	l.become(Pausing)
}

// shorter returns by how much a time is shortened: less than the most.
func (l *Life) shorter(most time.Duration) time.Duration {
	if l.Random == nil || most == 0 {
		return 0
	}
	return l.Random(most)
}

// hurry ends a pause, as the node is about to be closed: what it still has to deliver has one more attempt.
func (l *Life) hurry() { l.until = time.Time{} }
