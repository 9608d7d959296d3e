package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/quorumlock/adapters/internal/hold"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

var _ gocron.Locker = (*Locker)(nil)

// Locker is a [gocron.Locker]: of the instances that start a job at the same time, one runs it. Make one with [New]. It is safe for
// concurrent use.
type Locker struct {
	locker  *redlock.Locker
	options options
	atLeast time.Duration

	mu   sync.Mutex
	jobs map[string]*job // that run in this process or are about to, by name
	kept map[*job]struct{}
}

// New returns a Locker for gocron.WithDistributedLocker, or for gocron.WithDistributedJobLocker, if jobs need different options. It
// asks no server. Several may share a redlock.Locker, which stays the caller's.
func New(locker *redlock.Locker, opts ...Option) (*Locker, error) {
	o, err := newOptions(locker, opts)
	if err != nil {
		return nil, err
	}
	l := &Locker{locker: locker, options: o, atLeast: defaultAtLeast, jobs: map[string]*job{}, kept: map[*job]struct{}{}}
	check := func(opts ...redlock.LockOption) error {
		return hold.Check(locker, (*redlock.Locker).TryLock, NamePrefix+"check", slices.Concat(o.lock, opts)...)
	}
	if err := check(); err != nil {
		return nil, fmt.Errorf("gocronlock: LockOptions: %w", err)
	}
	if o.atLeast != nil {
		l.atLeast = *o.atLeast
		if l.atLeast <= 0 {
			return nil, invalid.Errorf("gocronlock: AtLeast must be above zero, and is %v: other instances would run a tick again", l.atLeast)
		}
		if err := check(redlock.TTL(l.atLeast)); err != nil {
			return nil, fmt.Errorf("gocronlock: AtLeast: a lock cannot stay for %v: %w", l.atLeast, err)
		}
	}
	return l, nil
}

// Lock takes the lock of a job. gocron calls it with the name of the job, and skips the job if there is an error:
//   - redlock.ErrTaken: another instance runs the job or has just run it, or this one still runs it, whether or not the lock of that
//     run is lost;
//   - redlock.ErrNoQuorum: too few servers answer. While that is so no instance runs the job;
//   - any other error of redlock.Locker.TryLock.
//
// It does not wait for a holder. While the instances have taken the servers from each other, or keys of instances that are gone are in
// the way, so that none is seen to have the lock, it tries again for some seconds. If none has it then, OnError is told
// redlock.ErrTaken: perhaps no instance runs the job at this tick.
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	j := &job{locker: l, name: name}
	if err := l.begin(j); err != nil {
		return nil, err
	}
	lock, split, err := l.try(ctx, name)
	l.mu.Lock()
	if j.lock, j.taken = lock, time.Now(); err != nil {
		delete(l.jobs, name)
	}
	l.mu.Unlock()
	if err != nil {
		if (split || !errors.Is(err, redlock.ErrTaken)) && ctx.Err() == nil {
			l.options.onError(name, err)
		}
		return nil, err
	}
	hold.OnLoss(lock, j.lose)
	return j, nil
}

// begin makes a run that of its name, unless an earlier one has not ended. The servers refuse that too, but not after a loss.
func (l *Locker) begin(j *job) error {
	l.mu.Lock()
	earlier := l.jobs[j.name]
	if earlier == nil {
		l.jobs[j.name] = j
	}
	lost := earlier != nil && earlier.lock != nil && earlier.lock.Err() != nil
	l.mu.Unlock()
	if earlier == nil {
		return nil
	}
	err := fmt.Errorf("gocronlock: this instance still runs the job %q: %w", j.name, redlock.ErrTaken)
	if lost {
		err = fmt.Errorf("%w, and its lock is lost", err)
		l.options.onError(j.name, err)
	}
	return err
}

const (
	patience   = 5 * time.Second       // with an election that nobody wins
	firstPause = 20 * time.Millisecond // the longest before another round; it doubles from one to the next
	lastPause  = time.Second           // and grows to this at most
)

// try is TryLock, again and again while no majority of the servers is seen to hold the lock for anybody. split means that this is so
// at the end.
func (l *Locker) try(ctx context.Context, name string) (lock *redlock.Lock, split bool, err error) {
	longest := max(firstPause, min(l.atLeast/2, lastPause)) // a lock that another instance takes meanwhile has to be seen
	for begin, pause := time.Now(), firstPause; ; pause = min(2*pause, longest) {
		lock, err = l.locker.TryLock(ctx, NamePrefix+name, l.options.lock...)
		split = err != nil && l.split(ctx, name, err)
		if !split || time.Since(begin) >= patience {
			return lock, split, err
		}
		select {
		case <-time.After(rand.N(pause)):
		case <-ctx.Done():
			return nil, split, err
		}
	}
}

// split reports whether the error of a TryLock may come from an election that nobody won.
func (l *Locker) split(ctx context.Context, name string, err error) bool {
	if !errors.Is(err, redlock.ErrTaken) || errors.Is(err, nodeerr.ErrNoExpiry) || errors.Is(err, nodeerr.ErrForeign) {
		return false
	}
	state, err := l.locker.Inspect(ctx, NamePrefix+name)
	return err == nil && state.Verdict != redlock.VerdictHeld && state.Verdict != redlock.VerdictForeign
}

// Context returns a child of parent that ends when the lock of a job is lost, with the loss as its cause. A job calls it first,
// with its own name:
//
//	ctx, cancel := locker.Context(ctx, "report") // ends when the lock is lost
//	defer cancel()
//
// The context also ends when gocron has released the lock. If this instance does not hold the lock, it has ended already. The
// CancelFunc frees its resources.
func (l *Locker) Context(parent context.Context, name string) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	var lock *redlock.Lock
	if j := l.jobs[name]; j != nil {
		lock = j.lock
	}
	l.mu.Unlock()
	if lock == nil {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(fmt.Errorf("gocronlock: the job %q does not run here: %w", name, redlock.ErrNotHeld))
		return ctx, func() {}
	}
	return lock.Context(parent)
}

// Wait waits until this process keeps no lock for AtLeast any more, and for ctx at most; then the error is ctx.Err(). A program that
// exits calls it after Shutdown of the scheduler and before Close of the redlock.Locker. Without it locks may stay for the TTL.
func (l *Locker) Wait(ctx context.Context) error {
	l.mu.Lock()
	var kept []*job
	for j := range l.kept {
		kept = append(kept, j)
	}
	l.mu.Unlock()
	for _, j := range kept {
		select {
		case <-j.released:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// job is the lock of a job that runs, or that has run less than AtLeast ago.
type job struct {
	locker   *Locker
	name     string
	lock     *redlock.Lock // nil until it is taken; guarded by locker.mu until then
	taken    time.Time
	once     sync.Once
	unlocked bool          // guarded by locker.mu
	released chan struct{} // of a lock that is kept
}

// lose tells of a loss, once.
func (j *job) lose(err error) { j.once.Do(func() { j.locker.options.onError(j.name, err) }) }

// Unlock ends the lock, but not before AtLeast. gocron ignores its error, which OnError is told.
func (j *job) Unlock(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // that of gocron has ended if the scheduler stops
	l := j.locker
	l.mu.Lock()
	again := j.unlocked
	j.unlocked = true
	if !again {
		delete(l.jobs, j.name)
	}
	rest := l.atLeast - time.Since(j.taken)
	l.mu.Unlock()
	switch {
	case again:
		return redlock.ErrReleased
	case rest <= 0 || j.lock.Err() != nil:
		return j.release(ctx)
	case j.lock.Remaining() < rest && j.lock.Extend(ctx, rest) == nil:
		_, err := j.lock.Detach(ctx) // the servers end it, also if this process is gone
		if err != nil {
			j.lose(err)
		}
		return err
	}
	// The lock lasts for longer than the rest, or the servers fail just now. It is renewed until then.
	l.mu.Lock()
	j.released = make(chan struct{})
	l.kept[j] = struct{}{}
	l.mu.Unlock()
	go func() {
		end := time.NewTimer(rest)
		defer end.Stop()
		select {
		case <-end.C:
		case <-j.lock.Done():
		}
		_ = j.release(ctx)
		l.mu.Lock()
		delete(l.kept, j)
		l.mu.Unlock()
		close(j.released)
	}()
	return nil
}

func (j *job) release(ctx context.Context) error {
	err := hold.Release(ctx, j.lock)
	if errors.Is(err, redlock.ErrLost) {
		j.lose(err)
	}
	return err
}
