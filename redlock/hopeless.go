package redlock

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
)

// faults is the record of faults that may not pass, and since when the nodes have had them. It is kept until a majority
// has answered for the first time.
type faults struct{ at atomic.Pointer[faulty] }

// faulty is a series of rounds that such faults have prevented. since is the time of its first round, last is the time
// of its last one.
type faulty struct{ since, last time.Time }

// hopeless reports whether it is of no use to wait, because faults that do not pass by themselves prevent a majority.
// Once a majority has answered, such faults are an outage like any other, as while a password is changed, unless they
// are final.
func (l *Locker) hopeless(e *QuorumError) bool {
	from := func(least engine.Outlook) func(error) bool {
		return func(err error) bool { return engine.OutlookOf(err) >= least }
	}
	switch {
	case e.preventedBy(from(engine.Final)):
		return true
	case l.engine.Served():
		return false
	case e.preventedBy(from(engine.Stays)):
		return true
	}
	at := l.faults.at.Load()
	return at != nil && e.preventedBy(from(engine.MayPass)) && at.last.Sub(at.since) >= engine.Patience
}

// note records the outcome of a round that acquires. e is nil if the round was won. A round that its caller gave up
// shows nothing. A series ends with a round that shows other faults. It also ends if no round comes for much longer
// than pause, the longest pause between the rounds of a call that waits.
func (f *faults) note(e *QuorumError, now time.Time, pause time.Duration) {
	switch at := f.at.Load(); {
	case e != nil && e.Reason == errUnanswered: //nolint:errorlint // the very error is meant
	case e == nil || !e.preventedBy(func(err error) bool { return engine.OutlookOf(err) >= engine.MayPass }):
		f.at.Store(nil)
	case at == nil || now.Sub(at.last) >= engine.Patience+2*pause:
		f.at.Store(&faulty{now, now})
	default:
		f.at.Store(&faulty{at.since, now})
	}
}
