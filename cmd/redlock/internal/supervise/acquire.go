//go:build darwin || freebsd || linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/contest"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	noticeAfter = time.Second // after how long a wait is announced
	mostPause   = time.Minute // the pause between announcements grows up to it
)

// taken is a lock that was taken.
type taken struct {
	lock held            // nil: there is none
	each []*redlock.Lock // see holder
}

// await returns what a channel has. It stops waiting for it when a signal comes that ends a job, or stops it.
func await[T any](f *front, from <-chan T) (got T, ok bool, by unix.Signal) {
	for {
		wake := time.NewTimer(f.rules.tick())
		select {
		case got, ok = <-from:
			return got, ok, 0
		case sig := <-f.signals:
			f.seen[sig] = true
			by = ends(sig.(unix.Signal))
		case <-f.early:
			f.early, by = nil, interruption(f.ctx)
		case <-f.stops:
			by = unix.SIGTSTP
		case <-wake.C:
		}
		wake.Stop()
		if f.reap(); by != 0 {
			return got, false, by
		}
	}
}

// open gets the job. A report means that a signal has come before.
func (f *front) open(open func() (*Job, error)) (*Report, error) {
	opened := make(chan error, 1)
	var job *Job
	go func() {
		var err error
		job, err = open()
		opened <- err
	}()
	for {
		err, ok, by := await(f, opened)
		if by == unix.SIGTSTP {
			by = f.suspend()
		}
		switch {
		case by != 0:
			return &Report{Code: 128 + int(by)}, nil
		case ok:
			if err == nil {
				f.job, f.name = job, job.Names[0]
			}
			return nil, err
		}
	}
}

// acquire takes the lock, or returns the report. A job that is stopped while it waits does not take the lock: it
// waits again when it is continued.
func (f *front) acquire() *Report {
	ctx := context.Background()
	if f.job.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.job.Wait)
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		if within := f.job.announceLater(ctx); within != nil {
			cancel(within)
		}
	}()
	defer func() {
		cancel(nil)
		<-announced
	}()
	f.job.Events.say(event{Event: "waiting"}, fmt.Sprintf("acquiring the lock %q", f.job.Names[0]))
	for {
		t, by, err := f.attempt(ctx)
		if t.lock != nil && by != 0 {
			_ = t.lock.Unlock(context.Background()) // it ends by itself if that fails
		}
		if by == unix.SIGTSTP {
			if by = f.suspend(); by == 0 {
				continue
			}
		}
		switch {
		case by != 0:
			return &Report{Code: 128 + int(by)}
		case err != nil:
			failed := f.job.Failed(err)
			return &failed
		}
		f.taken, f.acquired = t, f.clock.Now()
		f.job.sayAcquired(t)
		return nil
	}
}

// sayAcquired says which lock was taken.
func (j *Job) sayAcquired(t taken) {
	valid, fence := (t.lock.Remaining() + j.Grace()).Truncate(time.Millisecond), t.each[0].Fence()
	text := fmt.Sprintf("acquired the lock, valid for %s", valid)
	if fence > 0 {
		text += fmt.Sprintf(", fencing token %d", fence)
	}
	acquired := event{Event: "acquired", Token: string(t.each[0].Token()), Fence: fence, Validity: milliseconds(valid)}
	j.Events.say(acquired, text)
}

// attempt is one try to get the lock, which a signal may end.
func (f *front) attempt(ctx context.Context) (t taken, by unix.Signal, err error) {
	trying, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		t, err = f.job.take(trying)
	}()
	if _, _, by = await(f, done); by != 0 {
		cancel()
		<-done
	}
	if within := context.Cause(ctx); err != nil && errors.Is(within, ErrWithin) {
		err = within
	}
	return t, by, err
}

// take takes the lock, or the locks if there are several names.
func (j *Job) take(ctx context.Context) (t taken, err error) {
	var lock *redlock.Lock
	var locks *redlock.Locks
	switch name := j.Names[0]; {
	case len(j.Names) > 1 && j.NonBlock:
		locks, err = contest.TryLockAll(ctx, j.Locker, j.Names, j.Options...)
	case len(j.Names) > 1:
		locks, err = j.Locker.LockAll(ctx, j.Names, j.Options...)
	case j.NonBlock:
		lock, err = contest.TryLock(ctx, j.Locker, name, j.Options...)
	default:
		lock, err = j.Locker.Lock(ctx, name, j.Options...)
	}
	switch {
	case err != nil:
	case lock != nil:
		t = taken{lock, []*redlock.Lock{lock}}
	default:
		t.lock = locks
		for _, name := range j.Names {
			t.each = append(t.each, locks.Get(name))
		}
	}
	return t, err
}

// ends returns a signal if it ends a wait, and 0 otherwise.
func ends(sig unix.Signal) unix.Signal {
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP:
		return sig
	}
	return 0
}

// suspend returns when the job is continued, or with the signal that ends it.
func (f *front) suspend() (by unix.Signal) {
	for halted := f.halt(unix.SIGTSTP); !halted; { // SIGCONT may come all the same
		switch _, _, by = await(f, f.resumed); by {
		case 0:
			halted = true
		case unix.SIGTSTP:
		default:
			return by
		}
	}
	f.resume()
	return 0
}

// isAround reports whether a holder is the outer one of this process, which is still waited for then.
func isAround(holder redlock.Holder) bool {
	return holder.Token != "" && string(holder.Token) == os.Getenv("REDLOCK_TOKEN")
}

// announceLater says why the lock is waited for if the wait lasts, and again when another obstacle is in the way. It returns
// the error if the holder is the outer redlock run of this one.
func (j *Job) announceLater(ctx context.Context) (within error) {
	if j.NonBlock {
		return nil
	}
	var said obstacle
	for pause := noticeAfter; sleep(ctx, pause); pause = min(2*pause, mostPause) {
		debug.FreeOSMemory() // what the command line took: many may wait, for long
		blocked, text, err := j.obstacle(ctx)
		switch is := obstacleOf(err); {
		case errors.Is(err, ErrWithin):
			return err
		case ctx.Err() != nil:
			return nil
		case is != said:
			said = is
			j.Events.warn(blocked, text)
		}
		if !j.Observer.changes(ctx) {
			return nil
		}
	}
	return nil
}

// sleep returns after some time, or returns false when ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	wake := time.NewTimer(d)
	defer wake.Stop()
	select {
	case <-wake.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// look asks the nodes who holds a lock. It waits for those that hang only if too few others answer.
func (j *Job) look(ctx context.Context, name string) (*redlock.LockState, error) {
	if state, err := client.Look(ctx, j.Locker, name); err == nil {
		return state, nil
	}
	return j.Locker.Inspect(ctx, name)
}

// obstacle asks the nodes why the lock is waited for. It returns an error if too few grant it, and ErrWithin if the outer redlock
// run of this one holds it.
func (j *Job) obstacle(ctx context.Context) (blocked event, text string, err error) {
	name := j.Names[0]
	state, err := j.look(ctx, name)
	for i := 1; i < len(j.Names) && err == nil && state.Verdict != redlock.VerdictHeld; i++ {
		name = j.Names[i]
		state, err = j.look(ctx, name)
	}
	blocked = event{Event: "blocked", Lock: j.among(name)}
	text = fmt.Sprintf("waiting for the lock %q", name)
	if err == nil && state.Verdict != redlock.VerdictHeld {
		err = j.Observer.outage()
	}
	if err != nil {
		blocked.Error = display.Error(err)
		return blocked, text + ": " + blocked.Error, err
	}
	if state.Kind != redlock.KindSlot && slices.ContainsFunc(state.Holders, isAround) {
		return blocked, text, fmt.Errorf("the lock %q is %w", name, ErrWithin)
	}
	if n := len(state.Holders); n > 0 {
		if last := state.Holders[n-1]; last.TTL != redlock.NoLimit {
			blocked.Validity = milliseconds(max(0, last.TTL))
		}
	}
	blocked.Holder = display.Holder(state)
	if blocked.Holder != "" {
		text += fmt.Sprintf(", which is held by %q", blocked.Holder)
	}
	return blocked, text, nil
}
