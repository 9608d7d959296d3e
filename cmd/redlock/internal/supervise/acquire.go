//go:build darwin || freebsd || linux

package supervise

import (
	"context"
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
	h.Events.say(event{Event: "waiting"})
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
			h.Events.say(event{
				Event: "acquired", Token: a.lock.Token(), Fence: a.lock.Fence(), Validity: milliseconds(h.validity()),
			})
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
	by, frontGone := unix.Signal(0), false
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case m, ok := <-h.link.messages:
			frontGone = !ok
			h.resumes = max(h.resumes, m.Continue)
			if by = ends(m.Signal); by != 0 || frontGone {
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
	a.by, a.frontGone = by, frontGone
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
	switch {
	case ctx.Err() != nil:
	case err != nil:
		h.Events.warn(event{Event: "blocked", Error: display.Error(err)})
	case state.TTL == redlock.NoLimit:
		h.Events.warn(event{Event: "blocked", Holder: state.Metadata})
	default:
		h.Events.warn(event{Event: "blocked", Holder: state.Metadata, Validity: milliseconds(max(0, state.TTL))})
	}
}
