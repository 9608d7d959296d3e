//go:build darwin || freebsd || linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/redlock"
)

// The lock goes from the front to the holder by its tokens. The front takes it without renewals, so its handle does
// nothing by itself: when the holder renews the lock, the front cannot spoil that, also if it was frozen meanwhile.
// The front keeps the handle until the holder has attached. If the holder fails before, the front waits for its end
// and releases the lock.

// given is a lock as the front gives it to the holder. The instants are of [Clock].
type given struct {
	Tokens   []string  // in the order of the names
	Acquired time.Time // when the front got it
	Deadline time.Time // of the validity, less the grace
}

// killedEarly is what is said if the holder was killed before the command was there.
const killedEarly = "the process that runs the command was killed before it started the command; " +
	"the lock ends at its TTL at the latest"

// lostEarly is the report if the lock is over before the command was there.
func (j *Job) lostEarly(err error, expired bool) *Report {
	text := fmt.Sprintf("the lock %q was lost before the command was started: %s", j.nameIn(err), j.why(err))
	if expired {
		text = fmt.Sprintf("the lock %q was acquired too late: too little of its validity was left to start the command%s",
			j.nameIn(err), nodesOf(err))
	}
	return &Report{Code: CodeLost, Lost: true, Text: text}
}

// handOver starts the holder and gives it the lock. A report or an error means that it did not get it, and that no
// holder is left.
func (f *front) handOver(setup []byte) (*Report, error) {
	if err := f.start(); err != nil {
		return nil, fmt.Errorf("a second process could not be started: %w", err)
	}
	_ = f.link.put(message{Setup: setup}) // if it fails, the holder is gone, and that shows in messages
	f.job.Events.flush()                  // while the holder begins
	stopped := false
	for {
		m, ok, by := await(f, f.link.messages)
		switch {
		case by == unix.SIGTSTP: // a command that is stopped is stopped with the lock
			stopped = true
		case by != 0:
			return f.endHolder(&Report{Code: 128 + int(by)}), nil
		case !ok:
			if by := endedEarly(f.await()); by != 0 {
				return &Report{Code: 128 + int(by)}, nil
			}
			return &Report{Code: CodeInternal, Text: killedEarly}, nil
		case m.Report != nil:
			f.await()
			return m.Report, nil
		case m.Ready:
			if failed := f.refresh(); failed != nil {
				return f.endHolder(failed), nil
			}
			f.give()
			if stopped {
				f.forward(unix.SIGTSTP)
			}
			return nil, nil //nolint:nilnil // it has got the lock
		}
	}
}

// endHolder ends a holder that does not get the lock.
func (f *front) endHolder(report *Report) *Report {
	_ = unix.Kill(f.holder, unix.SIGKILL) // its number is its own: it is not reaped
	f.await()
	return report
}

// refresh extends a lock whose holder took long to begin. A report means that the lock is over, or will be.
func (f *front) refresh() *Report {
	now, ttl := f.clock.Now(), f.rules.TTL
	late := now.Sub(f.acquired) > ttl/10
	if most := f.job.MaxHold; !late || most > 0 && f.acquired.Add(most).Sub(now) < ttl {
		return nil // the holder finds out
	}
	switch err := f.lock.Extend(context.Background(), ttl); {
	case err == nil:
		return nil
	case errors.Is(err, redlock.ErrNotHeld):
		return f.job.lostEarly(err, errors.Is(err, redlock.ErrExpired))
	default:
		failed := f.job.Failed(err)
		return &failed
	}
}

// give sends the lock to the holder.
func (f *front) give() {
	g := &given{Acquired: f.acquired, Deadline: f.clock.Now().Add(f.lock.Remaining())}
	for _, lock := range f.each {
		g.Tokens = append(g.Tokens, string(lock.Token()))
	}
	f.link.send(message{Given: g})
}

// detach ends the handle of the lock, which the holder has now. It waits for nodes that are slow, and nothing waits
// for it.
func (f *front) detach() {
	each, end := f.each, f.job.Close
	f.taken, f.job = taken{}, nil
	go func() {
		for _, lock := range each {
			_, _ = lock.Detach(context.Background()) // fails if the deadline has passed
		}
		end()
	}()
}

// unlock releases the lock, if the front has one, and closes the job.
func (f *front) unlock() {
	if f.lock != nil {
		_ = f.lock.Unlock(context.Background()) // it ends by itself if that fails
	}
	f.job.Close()
}

// attach takes over the lock, or returns the report. What it has attached to is released by the front then, or ends
// at its TTL.
func (h *holder) attach() *Report {
	h.link.send(message{Ready: true})
	m, ok := <-h.link.messages
	if !ok || m.Given == nil {
		return &Report{Code: 128 + int(unix.SIGKILL)} // which nobody reads
	}
	h.acquired = m.Given.Acquired
	opts := []redlock.LockOption{redlock.Grace(h.Grace()), redlock.RenewFor(redlock.NoLimit)}
	if h.MaxHold > 0 {
		h.course.latest = h.acquired.Add(h.MaxHold)
		left := h.course.latest.Sub(h.clock.Now())
		if left < h.TTL { // the lock ends by then, as it is
			left = 0
		}
		opts[1] = redlock.RenewFor(left)
	}
	if err := h.attachAll(m.Given.Tokens, opts); err != nil {
		if errors.Is(err, redlock.ErrNotHeld) {
			return h.lostEarly(err, !h.clock.Now().Before(m.Given.Deadline))
		}
		failed := h.Failed(err)
		return &failed
	}
	h.link.send(message{Attached: true})
	h.course.renewed(h.clock.Now().Add(h.validity()))
	h.link.board.setDeadline(h.course.deadline)
	if h.link.isGone() {
		return h.giveUp(&Report{Code: 128 + int(unix.SIGKILL)})
	}
	return nil
}

// attachAll attaches to the locks, at the same time.
func (h *holder) attachAll(tokens []string, opts []redlock.LockOption) error {
	h.each = make([]*redlock.Lock, len(h.Names))
	errs := make([]error, len(h.Names))
	var all sync.WaitGroup
	for i, name := range h.Names {
		all.Go(func() {
			h.each[i], errs[i] = h.Locker.Attach(context.Background(), name, redlock.Token(tokens[i]), opts...)
		})
	}
	all.Wait()
	if h.lock = together(h.each); len(h.each) == 1 {
		h.lock = h.each[0]
	}
	return first(errs)
}
