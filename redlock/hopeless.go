package redlock

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
)

// faults is since when the nodes have had faults that may not pass, before a majority has answered once.
type faults struct{ at atomic.Pointer[faulty] }

// faulty is a series of rounds that such faults have prevented.
type faulty struct{ since, last time.Time }

// hopeless reports whether it is of no use to wait, as faults prevent a majority that do not pass by themselves. Once a majority has
// answered, they are an outage like any other, as while a password is changed; unless they are final.
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

// note takes the outcome of a round that acquires. One that its caller gave up shows nothing. A series ends with a round that shows
// other faults, and if there is no round for much longer than the longest pause between the rounds of a call that waits.
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
