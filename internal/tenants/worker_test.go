package tenants_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	defer m.tallies.watch(name)()
	lock, err := m.locker.TryLock(context.Background(), name)
	if err != nil {
		<-time.After(20 * time.Millisecond)
		return false
	}
	for begin := time.Now(); m.tallies.of(name).yes < size && time.Since(begin) < timeout; {
		<-time.After(5 * time.Millisecond)
	}
	yes := m.tallies.of(name).yes
	return lock.Unlock(context.Background()) == nil && yes == size
}

// decent checks an error that any call may return: whatever is the matter, it says so.
func (w *world) decent(what string, err error) {
	known := []error{
		redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrNotHeld, redlock.ErrLost, redlock.ErrExpired, redlock.ErrReleased,
		redlock.ErrForeign, context.DeadlineExceeded, context.Canceled,
	}
	if err == nil {
		return
	}
	w.served.Add(1)
	if errors.Is(err, nodeerr.ErrProtocol) {
		w.failed("%s: an error of the protocol: %v", what, err)
		return
	}
	for _, e := range known {
		if errors.Is(err, e) {
			return
		}
	}
	w.failed("%s: not one of the errors that are documented: %v", what, err)
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
	what := ""
	ctx, cancel := context.WithTimeout(w.ctx, bound)
	defer cancel()
	err := func() error {
		switch d.IntN(8) {
		case 0:
			what = "Do"
			return m.locker.Do(ctx, name, func(context.Context, *redlock.Lock) error { return nil })
		case 1:
			what = "Do that is renewed"
			return m.locker.Do(ctx, name, func(ctx context.Context, _ *redlock.Lock) error {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(ttl * time.Duration(1+d.IntN(3)) / 2):
				case <-w.ctx.Done():
				}
				return nil
			})
		case 2:
			what = "Lock"
			lock, err := m.locker.Lock(ctx, name)
			if err != nil {
				return err
			}
			what = "Unlock"
			return lock.Unlock(ctx)
		case 3:
			what = "TryLock, Detach, Attach"
			lock, err := m.locker.TryLock(ctx, name, redlock.Metadata("of the worker"))
			if err != nil {
				return err
			}
			token, err := lock.Detach(ctx)
			if err != nil {
				return err
			}
			if lock, err = m.locker.Attach(ctx, name, token); err != nil {
				return err
			}
			return lock.Unlock(ctx)
		}
		what = "TryLock"
		lock, err := m.locker.TryLock(ctx, name)
		if err != nil {
			return err
		}
		if d.IntN(2) == 0 {
			what = "Extend"
			if err := lock.Extend(ctx, ttl); err != nil {
				return err
			}
		}
		if d.IntN(2) == 0 {
			what = "Inspect"
			if state, err := m.locker.Inspect(ctx, name); err != nil {
				return err
			} else if state.Token != lock.Token() {
				return fmt.Errorf("%w: Inspect of a lock that is held says %+v", redlock.ErrNotHeld, state)
			}
		}
		what = "Unlock"
		return lock.Unlock(ctx)
	}()
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
		call("Lock with AutoExtend", func() { lock, err = m.locker.Lock(ctx, name, redlock.AutoExtend(), redlock.MaxHold(2*ttl)) })
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
