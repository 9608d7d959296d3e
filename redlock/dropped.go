package redlock

import (
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/journal"
)

// dropped stands for a handle that the program may drop while the lock is renewed. It does not refer to the handle:
// otherwise the handle would never be collected.
type dropped struct {
	held   *engine.Held
	holder *engine.Holder
	meant  atomic.Bool // the program waits for the end of the lock, or ended it
}

// watched returns the handle for the caller of a request that got a lock. If the lock is renewed without a function,
// that is another handle, which the log reports if the program drops it.
func (l *Locker) watched(lock *Lock, req *request) *Lock {
	if !req.Renewed || req.function || !l.events.mayLog() {
		return lock
	}
	handle := *lock // apart from the lock itself, to which the engine has references
	d := &dropped{held: lock.held, holder: lock.holder}
	handle.aside = &aside{dropped: d}
	runtime.AddCleanup(&handle, l.noteDropped, d)
	return &handle
}

// noteDropped reports a handle that was collected while its lock was renewed. It does not end the renewals: the work
// that the lock protects may go on.
func (l *Locker) noteDropped(d *dropped) {
	if d.meant.Load() || l.engine.Closing().Err() != nil || !d.held.Has(d.holder) {
		return
	}
	name := l.nameOf(d.held.Name.Key())
	if !l.throttle.logs("dropped\n"+name, l.engine.Clock.Now()) { // no name has a line break
		return
	}
	// The log asks its handler later: this goroutine runs the clean-ups of the whole program.
	l.events.emit(logOnly{line: journal.Line{
		At: time.Now(), Level: slog.LevelWarn, Args: []any{"name", name},
		Message: "redlock: a lock is renewed that nobody can unlock, as its handle was dropped",
	}})
}

// mean records that the program waits for the end of the lock: a handle that is dropped then is no mistake.
func (l *Lock) mean() {
	l.held.Enter()
	l.meanLocked()
	l.held.Exit()
}

// meanLocked is mean for a caller that has the mutex, and for a program that ends the lock.
func (l *Lock) meanLocked() {
	if l.aside != nil && l.aside.dropped != nil {
		l.aside.dropped.meant.Store(true)
	}
}
