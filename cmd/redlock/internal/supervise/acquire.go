//go:build darwin || freebsd || linux

package supervise

import (
	"context"
	"fmt"
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
	lock      *redlock.Lock
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
	h.Events.say(event{Event: "waiting"}, fmt.Sprintf("acquiring the lock %q", h.Name))
	for {
		a := h.attempt(ctx, notice.C)
		if a.lock != nil && (a.by != 0 || a.frontGone) {
			_ = a.lock.Unlock(context.WithoutCancel(ctx)) // it ends by itself if that fails
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
			h.lock, h.acquired = a.lock, h.clock.Now()
			if h.MaxHold > 0 {
				h.course.latest = h.acquired.Add(h.MaxHold)
			}
			h.course.renewed(h.clock.Now().Add(h.validity()))
			h.link.board.setDeadline(h.course.deadline)
			valid, fence := h.validity().Truncate(time.Millisecond), a.lock.Fence()
			text := fmt.Sprintf("acquired the lock, valid for %s", valid)
			if fence > 0 {
				text += fmt.Sprintf(", fencing token %d", fence)
			}
			h.Events.say(event{Event: "acquired", Token: a.lock.Token(), Fence: fence, Validity: milliseconds(valid)}, text)
			return nil
		}
	}
}

func (h *holder) attempt(ctx context.Context, notice <-chan time.Time) (a attempt) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if h.NonBlock {
			a.lock, a.err = contest.TryLock(ctx, h.Locker, h.Name, h.Options...)
		} else {
			a.lock, a.err = h.Locker.Lock(ctx, h.Name, h.Options...)
		}
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
				go h.announce(ctx)
			}
		}
	}
	return a
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

// announce says who holds the lock.
func (h *holder) announce(ctx context.Context) {
	state, err := h.Locker.Inspect(ctx, h.Name)
	if ctx.Err() != nil {
		return
	}
	blocked, text := event{Event: "blocked"}, fmt.Sprintf("waiting for the lock %q", h.Name)
	if err != nil {
		blocked.Error = display.Error(err)
		h.Events.warn(blocked, text+": "+blocked.Error)
		return
	}
	if state.TTL != redlock.NoLimit {
		blocked.Validity = milliseconds(max(0, state.TTL))
	}
	if blocked.Holder = state.Metadata; blocked.Holder != "" {
		text += fmt.Sprintf(", which is held by %q", blocked.Holder)
	}
	h.Events.warn(blocked, text)
}
