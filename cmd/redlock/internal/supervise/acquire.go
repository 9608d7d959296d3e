//go:build darwin || freebsd || linux

package supervise

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/contest"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/redlock"
)

// noticeAfter is after how long a wait is announced.
const noticeAfter = time.Second

// attempt is one try to get the lock, which messages from the front may end.
type attempt struct {
	lock      held            // nil: it was not got
	each      []*redlock.Lock // see holder
	err       error
	by        unix.Signal // the signal that ended it; SIGTSTP suspends
	frontGone bool
}

// acquire takes the lock, or returns the report. A job that is stopped while it waits does not take the lock: it waits again when
// it is continued.
func (h *holder) acquire() *Report {
	ctx := context.Background()
	if h.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.Wait)
		defer cancel()
	}
	notice := time.NewTimer(noticeAfter)
	defer notice.Stop()
	h.Events.say(event{Event: "waiting"}, fmt.Sprintf("acquiring the lock %q", h.Names[0]))
	for {
		a := h.attempt(ctx, notice.C)
		if a.lock != nil && (a.by != 0 || a.frontGone) {
			_ = a.lock.Unlock(ctx) // it ends by itself if that fails
		}
		switch {
		case a.frontGone:
			return &Report{Code: 128 + int(unix.SIGKILL)} // which nobody reads
		case a.by == unix.SIGTSTP:
			if failed := h.suspend(); failed != nil {
				return failed
			}
		case a.by != 0:
			return &Report{Code: 128 + int(a.by)}
		case a.err != nil:
			failed := h.Failed(a.err)
			return &failed
		default:
			h.lock, h.each, h.acquired = a.lock, a.each, h.clock.Now()
			if h.MaxHold > 0 {
				h.course.latest = h.acquired.Add(h.MaxHold)
			}
			h.course.renewed(h.clock.Now().Add(h.validity()))
			h.link.board.setDeadline(h.course.deadline)
			valid, fence := h.validity().Truncate(time.Millisecond), a.each[0].Fence()
			text := fmt.Sprintf("acquired the lock, valid for %s", valid)
			if fence > 0 {
				text += fmt.Sprintf(", fencing token %d", fence)
			}
			h.Events.say(event{Event: "acquired", Token: string(a.each[0].Token()), Fence: fence, Validity: milliseconds(valid)}, text)
			return nil
		}
	}
}

func (h *holder) attempt(ctx context.Context, notice <-chan time.Time) (a attempt) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, within := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(done)
		a.take(ctx, h.Job)
	}()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case m, ok := <-h.link.messages:
			a.frontGone = !ok
			h.resumes = max(h.resumes, m.Continue)
			if a.by = ends(m.Signal); a.by != 0 || a.frontGone {
				cancel()
				<-done
				waiting = false
			}
		case <-notice:
			if !h.NonBlock {
				go h.announce(ctx, within)
			}
		case name := <-within:
			cancel()
			<-done
			waiting = false
			if a.lock == nil {
				a.err = fmt.Errorf("the lock %q is %w", name, ErrWithin)
			}
		}
	}
	return a
}

// take takes the lock, or the locks if there are several names.
func (a *attempt) take(ctx context.Context, j *Job) {
	var lock *redlock.Lock
	var locks *redlock.Locks
	switch name := j.Names[0]; {
	case len(j.Names) > 1 && j.NonBlock:
		locks, a.err = contest.TryLockAll(ctx, j.Locker, j.Names, j.Options...)
	case len(j.Names) > 1:
		locks, a.err = j.Locker.LockAll(ctx, j.Names, j.Options...)
	case j.NonBlock:
		lock, a.err = contest.TryLock(ctx, j.Locker, name, j.Options...)
	default:
		lock, a.err = j.Locker.Lock(ctx, name, j.Options...)
	}
	switch {
	case a.err != nil:
	case lock != nil:
		a.lock, a.each = lock, []*redlock.Lock{lock}
	default:
		a.lock = locks
		for _, name := range j.Names {
			a.each = append(a.each, locks.Get(name))
		}
	}
}

// ends returns a signal if it ends a wait, and 0 otherwise.
func ends(sig unix.Signal) unix.Signal {
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP:
		return sig
	}
	return 0
}

// suspend returns when the job is continued, with a report if that is not to be.
func (h *holder) suspend() *Report {
	h.link.send(message{Stopped: unix.SIGTSTP, After: h.resumes})
	for m := range h.link.messages {
		if m.Continue > 0 {
			h.resumes = m.Continue
			return nil
		}
		if by := ends(m.Signal); by != 0 && by != unix.SIGTSTP {
			return &Report{Code: 128 + int(by)}
		}
	}
	return &Report{Code: 128 + int(unix.SIGKILL)}
}

// isAround reports whether a holder is the outer one of this process, which is still waited for then.
func isAround(holder redlock.Holder) bool {
	return holder.Token != "" && string(holder.Token) == os.Getenv("REDLOCK_TOKEN")
}

// announce says who holds the lock. If that is the outer redlock run of this one, within gets the name.
func (h *holder) announce(ctx context.Context, within chan<- string) {
	name := h.Names[0]
	state, err := h.Locker.Inspect(ctx, name)
	for i := 1; i < len(h.Names) && err == nil && state.Verdict != redlock.VerdictHeld; i++ {
		name = h.Names[i]
		state, err = h.Locker.Inspect(ctx, name)
	}
	if ctx.Err() != nil {
		return
	}
	blocked, text := event{Event: "blocked", Lock: h.among(name)}, fmt.Sprintf("waiting for the lock %q", name)
	if err != nil {
		blocked.Error = display.Error(err)
		h.Events.warn(blocked, text+": "+blocked.Error)
		return
	}
	if state.Kind != redlock.KindSlot && slices.ContainsFunc(state.Holders, isAround) {
		within <- name
		return
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
	h.Events.warn(blocked, text)
}
