package tenants_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// hot is how many names are disturbed all the time.
const hot = 4

func hotName(i int) string { return fmt.Sprintf("hot-%d", i) }

// disturbedKeys returns the keys of the names that are disturbed, and those of their counters.
func disturbedKeys() (keys []string) {
	for i := range hot {
		keys = append(keys, prefix+hotName(i), "{"+prefix+hotName(i)+"}:fence")
	}
	return keys
}

// takesOnAll takes a lock that is free, and reports whether all servers granted it.
func (w *world) takesOnAll(m *member, name string) bool {
	lock, err := m.locker.TryLock(context.Background(), name)
	if err != nil {
		<-time.After(20 * time.Millisecond)
		return false
	}
	yes, _ := m.tallies.of(name)
	for begin := time.Now(); yes < size && time.Since(begin) < timeout; yes, _ = m.tallies.of(name) {
		<-time.After(5 * time.Millisecond)
	}
	return lock.Unlock(context.Background()) == nil && yes == size
}

// decent checks an error that any call may return: whatever is the matter, it says so.
func (w *world) decent(what string, err error) {
	known := []error{
		redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrNotHeld, redlock.ErrGone, redlock.ErrExpired, redlock.ErrReleased,
		redlock.ErrForeign, context.DeadlineExceeded, context.Canceled,
	}
	if err == nil {
		return
	}
	w.served.Add(1)
	if errors.Is(err, nodeerr.ErrProtocol) {
		w.failed("%s: an error of the protocol: %v", what, err)
	} else if !slices.ContainsFunc(known, func(e error) bool { return errors.Is(err, e) }) {
		w.failed("%s: not one of the errors that are documented: %v", what, err)
	}
}

// promptly calls f, which must not take longer than d and what the machine may take.
func (w *world) promptly(what string, d time.Duration, f func()) {
	begin := time.Now()
	f()
	if took := time.Since(begin); took > d+10*timeout && !w.stalled(begin) {
		w.failed("%s took %s", what, took)
	}
}

// alone uses a name that nobody else uses. Whatever is done to a minority of the servers, every call succeeds.
func (w *world) alone(d *rand.Rand, m *member, i int) {
	begin, weather := time.Now(), w.weather.Load()
	name := fmt.Sprintf("alone-%s-%d-%d", m.name, i, weather.number) // not what an earlier majority may have left
	if !weather.fair() {
		name += "-majority"
	}
	ctx, cancel := context.WithTimeout(w.ctx, bound)
	defer cancel()
	var lock *redlock.Lock
	var what string // the call that was made last
	var err error   // what it returned: after an error there are no more calls
	call := func(name string, f func() error) {
		if err == nil {
			what, err = name, f()
		}
	}
	take := func(opts ...redlock.LockOption) {
		call("TryLock", func() (err error) { lock, err = m.locker.TryLock(ctx, name, opts...); return err })
	}
	unlock := func() { call("Unlock", func() error { return lock.Unlock(ctx) }) }
	switch d.IntN(8) {
	case 0:
		call("Do", func() error {
			return m.locker.Do(ctx, name, func(context.Context, *redlock.Lock) error { return nil })
		})
	case 1:
		call("Do that is renewed", func() error {
			return m.locker.Do(ctx, name, func(ctx context.Context, _ *redlock.Lock) error {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(ttl * time.Duration(1+d.IntN(3)) / 2):
				case <-w.ctx.Done():
				}
				return nil
			})
		})
	case 2:
		call("Lock", func() (err error) { lock, err = m.locker.Lock(ctx, name); return err })
		unlock()
	case 3:
		var token redlock.Token
		take(redlock.Metadata("of the worker"))
		call("Detach", func() (err error) { token, err = lock.Detach(ctx); return err })
		call("Attach", func() (err error) { lock, err = m.locker.Attach(ctx, name, token); return err })
		unlock()
	default:
		take()
		if d.IntN(2) == 0 {
			call("Extend", func() error { return lock.Extend(ctx, ttl) })
		}
		if d.IntN(2) == 0 {
			call("Inspect", func() error {
				state, err := m.locker.Inspect(ctx, name)
				if err == nil && (len(state.Holders) != 1 || state.Holders[0].Token != lock.Token()) {
					err = fmt.Errorf("%w: Inspect of a lock that is held says %+v", redlock.ErrNotHeld, state)
				}
				return err
			})
		}
		unlock()
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		w.failed("%s %s of a name that nobody disturbs takes for ever: %v", m.name, what, err)
	case weather == w.weather.Load() && weather.fair() && w.ctx.Err() == nil && !w.stalled(begin):
		w.served.Add(1)
		if err != nil {
			w.failed("%s %s of a name that nobody disturbs: %v", m.name, what, err)
		}
	}
	w.decent(what, err)
	<-time.After(time.Duration(d.IntN(10)) * time.Millisecond)
}

// together uses names that the workers of all Lockers want.
func (w *world) together(d *rand.Rand, m *member) {
	name := fmt.Sprintf("together-%d", d.IntN(2))
	ttl := time.Duration(1+d.IntN(3)) * time.Second
	ctx, cancel := context.WithTimeout(w.ctx, bound)
	defer cancel()
	acquire := m.locker.Lock
	if d.IntN(4) == 0 {
		acquire = m.locker.TryLock
	}
	lock, err := acquire(ctx, name, redlock.TTL(ttl))
	if err != nil {
		w.decent("Lock", err)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			w.failed("%s waits for %s for ever: %v", m.name, name, err)
		}
		return
	}
	w.served.Add(1)
	if other, broken := w.oracle.enter(lock, m.name, ttl); broken != "" {
		w.failed("%s on %s: %s since %s, number %d; %s since %s, number %d", broken, name, other.who, other.won.Sub(w.began),
			other.lock.Fence(), m.name, shared.Now().Sub(w.began), lock.Fence())
	}
	switch d.IntN(40) {
	case 0: // crashed
		select {
		case <-lock.Done():
		case <-w.ctx.Done():
		}
	case 1, 2, 3:
		w.decent("Extend", lock.Extend(context.Background(), ttl))
	case 4, 5, 6, 7:
		<-time.After(time.Duration(d.IntN(300)) * time.Millisecond)
	default:
		<-time.After(time.Duration(d.IntN(5)) * time.Millisecond)
	}
	w.oracle.leave(lock)
	w.decent("Unlock", lock.Unlock(context.Background()))
}

// onDisturbed uses names that tenants disturb all the time. It may fail, but says why, and in time.
func (w *world) onDisturbed(d *rand.Rand, m *member) {
	name, wait := hotName(d.IntN(hot)), time.Duration(d.IntN(1000))*time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var lock *redlock.Lock
	var err error
	call := func(what string, f func()) {
		w.promptly(what, wait, f)
		w.decent(what+" "+name, err)
		err = nil
	}
	switch d.IntN(10) {
	case 0:
		call("Inspect", func() { _, err = m.locker.Inspect(ctx, name) })
	case 1:
		call("ForceUnlock", func() { _, err = m.locker.ForceUnlock(ctx, name) })
	case 2:
		call("Attach", func() { lock, err = m.locker.Attach(ctx, name, "token") })
	case 3:
		call("Do", func() { err = m.locker.Do(ctx, name, func(context.Context, *redlock.Lock) error { return nil }) })
	case 4, 5:
		call("TryLock", func() { lock, err = m.locker.TryLock(ctx, name) })
	case 6:
		call("Lock with RenewFor", func() { lock, err = m.locker.Lock(ctx, name, redlock.RenewFor(2*ttl)) })
	default:
		call("Lock", func() { lock, err = m.locker.Lock(ctx, name) })
	}
	if lock == nil {
		return
	}
	if d.IntN(4) == 0 {
		select {
		case <-lock.Done():
		case <-w.ctx.Done():
		}
	}
	if d.IntN(4) == 0 {
		call("Extend", func() { err = lock.Extend(ctx, ttl) })
	}
	call("Unlock", func() { err = lock.Unlock(ctx) })
}
