package stack_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// held is a lock that was won.
type held struct {
	client  *client
	lock    *redlock.Lock
	name    string
	token   string
	watched bool         // somebody checks it all the time
	extends atomic.Int64 // calls of Extend
	unlocks atomic.Int64 // calls of Unlock
}

// drift is the library's default allowance.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// take records a lock that was won at the end of a call that began at that time.
func (c *client) take(won *redlock.Lock, name string, begin time.Time, s step) *held {
	h := &held{client: c, lock: won, name: name, token: tokenOf(won), watched: s.watch}
	c.run.count("won")
	if won.Name() != name {
		c.run.violate("%v asked for %s and won %s", c, name, won.Name())
	}
	left, least := won.Remaining(), begin.Add(s.ttl-drift(s.ttl))
	if until := time.Now().Add(left); left > 0 && until.Before(least.Round(0)) && c.plan.handoff == 0 { // else it may have been handed off
		c.run.violate("%s is valid for %v less than its TTL", h.token, least.Sub(until))
	}
	h.checkHeld("won")
	c.run.mu.Lock()
	others := slices.Clone(c.run.locks)
	c.run.locks = append(c.run.locks, h)
	c.run.mu.Unlock()
	for _, other := range others {
		h.checkAlone(other)
	}
	h.checkLimit(others)
	c.mu.Lock()
	c.held = append(c.held, h)
	c.won[h.token] = true
	c.mu.Unlock()
	if s.watch {
		c.run.watching.Go(h.watch)
	}
	return h
}

// tokenOf returns the token of a lock, which may be handed off nevertheless.
func tokenOf(lock *redlock.Lock) string {
	return reflect.ValueOf(lock).Elem().FieldByName("held").Elem().FieldByName("Lease").FieldByName("token").String()
}

// checkAlone checks that two locks of one name are not valid at one instant.
func (h *held) checkAlone(other *held) {
	shared := h.lock.Kind() != redlock.KindExclusive && h.lock.Kind() == other.lock.Kind()
	if shared || h.client.run.plan.forgetful || h.name != other.name || !other.valid() {
		return
	}
	if h.valid() && other.valid() { // the other was valid before and after
		h.client.run.violate("%s and %s are valid at once", h.token, other.token)
	}
}

// checkLimit checks that at most as many locks of one name are valid at one instant as there are slots.
func (h *held) checkLimit(others []*held) {
	if h.client.run.plan.forgetful || h.lock.Kind() != redlock.KindSlot {
		return
	}
	is := func(o *held) bool { return o.lock.Kind() == redlock.KindSlot && o.name == h.name && o.valid() }
	valid := []*held{h}
	for _, o := range others {
		if is(o) {
			valid = append(valid, o)
		}
	}
	for _, o := range valid { // they were valid before and after
		if !is(o) {
			return
		}
	}
	if len(valid) > most {
		h.client.run.violate("%s has one of %d slots of %d", h.token, len(valid), most)
	}
}

func (h *held) valid() bool { return h.lock.Err() == nil && h.lock.Remaining() > 0 }

// checkHeld checks that a lock that is relied on is on a majority of nodes.
func (h *held) checkHeld(when string) {
	r := h.client.run
	if r.plan.forgetful || !h.valid() {
		return
	}
	if n := r.holders(h); n < len(r.servers)/2+1 && h.valid() {
		r.violate("%s, when it was %s, is on %d of %d servers", h.token, when, n, len(r.servers))
	}
}

// checkAllHeld checks the locks that are watched. A check can end a lease
// that is over, so the others are left alone.
func (r *run) checkAllHeld() {
	r.mu.Lock()
	locks := slices.Clone(r.locks)
	r.mu.Unlock()
	for _, h := range locks {
		if h.watched {
			h.checkHeld("watched")
		}
	}
}

// holders counts the servers that hold a lock.
func (r *run) holders(h *held) int {
	n := 0
	for _, s := range r.servers {
		if s.holds(h.name, h.token) {
			n++
		}
	}
	return n
}

// watch checks that Done is closed at the deadline.
func (h *held) watch() {
	r, done := h.client.run, h.lock.Done()
	for {
		select {
		case <-done:
			if h.lock.Err() == nil {
				r.violate("%s is held, and Done is closed", h.token)
			}
			return
		case <-time.After(h.lock.Remaining() + slack):
		}
		if h.lock.Remaining() > 0 {
			continue // extended meanwhile
		}
		select {
		case <-done:
		case <-time.After(slack):
			r.violate("Done of %s is not closed %v after its end", h.token, slack)
			return
		}
	}
}

// deadline returns the deadline of a lock that is held, or an instant before it. Of one that is over it returns what is past.
func (h *held) deadline() time.Time {
	now := time.Now()
	return now.Add(h.lock.Remaining())
}

// checkExtend checks how an Extend has ended: the deadline that stood before, and the one asked for.
func (h *held) checkExtend(ctx context.Context, err error, late bool, before, asked time.Time) {
	r, c := h.client.run, h.client
	left := h.lock.Remaining()
	if now := time.Now().Add(left); left == 0 { // it is over
	} else if now.Before(before) {
		r.violate("the deadline of %s moved back by %v", h.token, before.Sub(now))
	} else if err == nil && now.Before(asked.Round(0)) {
		r.violate("%s was extended by %v less than asked for", h.token, asked.Sub(now))
	}
	quorumError := (*redlock.QuorumError)(nil)
	if errors.As(err, &quorumError) {
		c.checkQuorumError(quorumError, "extend", h.name)
	}
	switch {
	case late && !errors.Is(err, redlock.ErrClosed):
		r.violate("Extend of %s after Close: %v", h.token, err)
	case err == nil:
		r.count("extended")
		h.checkHeld("extended")
	case errors.Is(err, redlock.ErrClosed):
		if !c.closing.Load() {
			r.violate("Extend of %s before Close: %v", h.token, err)
		}
	case errors.Is(err, redlock.ErrGone):
		if !r.plan.forgetful && !errors.Is(err, redlock.ErrReleased) && h.unlocks.Load() == 0 && time.Now().Before(before) {
			r.violate("%s was lost, and no server forgot it", h.token)
		}
	case errors.Is(err, redlock.ErrExpired), errors.Is(err, redlock.ErrReleased):
		if h.lock.Err() == nil {
			r.violate("%s is held after its Extend failed: %v", h.token, err)
		}
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case !errors.Is(err, redlock.ErrNoQuorum):
		r.violate("Extend of %s: %v", h.token, err)
	}
}

// checkUnlock checks how an Unlock has ended.
func (h *held) checkUnlock(err error, wasHeld, inTime bool) {
	r, n := h.client.run, len(h.client.run.servers)
	quorumError := (*redlock.QuorumError)(nil)
	if h.lock.Err() == nil || h.valid() {
		r.violate("%s is held after Unlock: %v", h.token, err)
	}
	if errors.As(err, &quorumError) {
		h.client.checkQuorumError(quorumError, "unlock", h.name)
	}
	again := h.unlocks.Load() > 1
	switch {
	case err == nil:
		r.count("unlocked")
		if left := r.holders(h); left > n-(n/2+1) && h.client.plan.handoff == 0 && !r.isLeft(h.token) { // see Detach
			r.violate("%s was unlocked, and is on %d servers", h.token, left)
		}
	case errors.Is(err, redlock.ErrNotHeld) && quorumError == nil:
		// It was over before, and an extension that had begun by then may have made what the nodes let go of now.
		extended := h.extends.Load() > 0 || h.client.plan.handoff > 0 // perhaps for another holder
		over := errors.Is(err, redlock.ErrExpired) && !inTime || extended && errors.Is(err, redlock.ErrGone) && r.plan.forgetful
		if released := again && errors.Is(err, redlock.ErrReleased); !over && !released {
			r.violate("the first Unlock of %s: %v", h.token, err)
		}
	case errors.Is(err, redlock.ErrNotHeld):
		if wasHeld && inTime && !again && !r.plan.forgetful {
			r.violate("%s was held until now, and Unlock reports that it was not", h.token)
		}
	case !errors.Is(err, redlock.ErrNoQuorum) || quorumError == nil:
		r.violate("Unlock of %s: %v", h.token, err)
	}
}
