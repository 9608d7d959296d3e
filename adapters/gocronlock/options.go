package gocronlock

import (
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/adapters/internal/hold"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/redlock"
)

// NamePrefix is in front of the name of every lock: the lock of the job report is gocron:report, and its key has the prefix of
// redlock.WithKeyPrefix in front of that.
const NamePrefix = "gocron:"

const defaultAtLeast = 500 * time.Millisecond

// Option changes how a [Locker] or an [Elector] works. One that is out of range, or that the other of the two is for, is
// redlock.ErrInvalid.
type Option interface{ apply(*options) }

type option func(*options)

func (f option) apply(o *options) { f(o) }

type options struct {
	atLeast *time.Duration // nil if AtLeast was not given
	onError func(name string, err error)
	lock    []redlock.LockOption
}

// AtLeast sets for how long the lock of a job stays at least, counted from when it was taken. It is for [New]. The default is
// 500 ms, which suits cron jobs on machines whose clocks are synchronised, but no job that runs each second on
// busy machines: a run that is late keeps the lock at the next tick.
//
// A lock that stays keeps the other instances from running the same tick again. So d has to be above the time by which the
// instances start a tick apart, and well below the time from one tick to the next: see "Jobs that run twice" in the package
// comment. d must be a TTL that the redlock.Locker accepts, so 0 is refused.
func AtLeast(d time.Duration) Option { return option(func(o *options) { o.atLeast = &d }) }

// OnError sets the function that is told what gocron does not report. name is that of the job, or of the Elector; compare err with
// errors.Is:
//   - redlock.ErrLost: the lock was lost while the job ran or AtLeast lasted, or while the Elector was the leader. It is told when the
//     library notices that, mostly at once;
//   - any other error: the job has not run in this instance, or the Elector could not campaign. redlock.ErrNoQuorum means that too
//     few servers answered; an Elector tells it every 10 s or so (redlock.MaxOutage). redlock.ErrTaken is told only if no instance was
//     seen to have the lock of a job, so that perhaps none runs it, or if an earlier run here goes on without its lock.
//
// f may be called by several goroutines at a time, and must not block. The default writes a line at level Warn to slog.Default.
// A nil f changes nothing.
func OnError(f func(name string, err error)) Option {
	return option(func(o *options) {
		if f != nil {
			o.onError = f
		}
	})
}

// LockOptions adds options for the locks, such as redlock.TTL, redlock.Metadata or redlock.RenewFor, which ends the lock of a job that
// hangs. By default the TTL is that of the redlock.Locker, 10 s, and a lock is renewed until its job ends, whatever the Locker says.
// redlock.Shared, redlock.Slots and redlock.Reentrant are redlock.ErrInvalid: a job would run several times at once.
func LockOptions(opts ...redlock.LockOption) Option {
	return option(func(o *options) { o.lock = append(o.lock, opts...) })
}

func newOptions(locker *redlock.Locker, opts []Option) (options, error) {
	o := options{onError: func(name string, err error) {
		slog.Warn("gocronlock: the lock of a job or of an elector has failed", "name", name, "error", err)
	}}
	if locker == nil {
		return o, invalid.Errorf("gocronlock: the redlock.Locker is nil")
	}
	for _, opt := range opts {
		if opt == nil {
			return o, invalid.Errorf("gocronlock: nil option")
		}
		opt.apply(&o)
	}
	o.lock = hold.Renewed(o.lock)
	return o, nil
}
