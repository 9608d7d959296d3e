package stack_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// checkAcquire checks how a Lock or TryLock has ended. late means that it began after Close.
func (c *client) checkAcquire(ctx context.Context, call, name string, err error, late bool) {
	quorumError := (*redlock.QuorumError)(nil)
	if errors.As(err, &quorumError) {
		c.checkQuorumError(quorumError, "acquire", name)
	}
	over := ctx.Err()
	_ = err != nil && errors.Is(err, errors.New("none")) // it panics if an error is joined with nil
	switch {
	case late && !errors.Is(err, redlock.ErrClosed):
		c.run.violate("%v: %s after Close: %v", c, call, err)
	case err == nil:
	case errors.Is(err, redlock.ErrClosed):
		if !c.closing.Load() {
			c.run.violate("%v: %s before Close: %v", c, call, err)
		}
	case quorumError == nil && over != nil && errors.Is(err, over): // it had ended before, so that no node was asked
	case quorumError == nil:
		c.run.violate("%v: %s reports nothing about the nodes: %v", c, call, err)
	case isOneOf(err, context.Canceled, context.DeadlineExceeded) && (over == nil || !errors.Is(err, over)):
		c.run.violate("%v: %s, and its context is not over: %v", c, call, err)
	}
}

// checkQuorumError checks what an error reports about the nodes.
func (c *client) checkQuorumError(e *redlock.QuorumError, op, name string) {
	yes, need := 0, len(c.nodes)/2+1
	for i, node := range e.Nodes {
		switch {
		case node.Addr != fmt.Sprintf("server-%d", i):
			c.run.violate("%v: node %d is called %s", c, i, node.Addr)
		case node.Err == nil:
			yes++
		case !known(node.Err):
			c.run.violate("%v: an unknown reason of node %d: %v", c, i, node.Err)
		}
	}
	lost := op == "unlock" && e.Op == "extend" // the last extension before a loss
	if e.Op != op && !lost || e.Name != name || len(e.Nodes) != len(c.nodes) || e.Need != need {
		c.run.violate("%v: the error of %s %s is about something else: %v", c, op, name, e)
	}
	if yes >= need && !strings.Contains(e.Error(), "majority reached too late") {
		c.run.violate("%v: a majority answered yes: %v", c, e)
	}
}

// calmTime is longer than it takes to find a connection mute, and to replace it.
const calmTime = 15 * time.Second

// rest checks what must work again when all faults are over.
func (r *run) rest() {
	r.checkAllHeld()
	r.checkGivesBack()
	for _, c := range r.clients {
		healthy := c.healthy()
		if healthy && !c.closing.Load() {
			c.checkWorks()
		}
		for _, h := range c.held {
			if !h.valid() {
				continue
			}
			longWay := h.lock.Kind() != redlock.KindExclusive && r.plan.room < 1<<12 // for the source of a script
			if err := c.unlock(h); err != nil && healthy && !r.plan.forgetful && !longWay {
				r.violate("Unlock of %s, with nothing in its way: %v", h.token, err)
			}
		}
	}
	pass(calmTime)
}

// checkVotes checks that each node has voted once on each acquire.
func (r *run) checkVotes() {
	for _, c := range r.clients {
		for i := range c.votes {
			if got, want := c.votes[i].Load(), c.rounds.Load(); got != want {
				r.violate("%v: node %d has given %d votes on %d acquires", c, i, got, want)
			}
		}
	}
}

// healthy reports whether none of the client's nodes was closed.
func (c *client) healthy() bool {
	for i := range c.nodes {
		if c.untidy[i].Load() || c.ended[i].Load() != nil {
			return false
		}
	}
	return true
}

// checkWorks takes a lock that nobody else wants, twice. The first may have to wait for connections.
func (c *client) checkWorks() {
	s := step{ttl: long, limit: 3 * time.Second, watch: true}
	h, err := c.lock("own of "+c.String(), s)
	if err == nil {
		err = c.unlock(h)
	}
	if err == nil {
		pass(c.plan.timeout)
		h, err = c.tryLock(context.Background(), "own of "+c.String(), s)
	}
	if err == nil {
		err = c.unlock(h)
	}
	if err != nil {
		c.run.violate("%v: with nothing in its way: %v", c, err)
	}
}

// checkGivesBack has each client wait for a lock of another: it is not to sleep when that is released.
func (r *run) checkGivesBack() {
	able := slices.DeleteFunc(slices.Clone(r.clients), func(c *client) bool { return !c.healthy() || c.closing.Load() })
	if len(able) < 2 {
		return
	}
	for i, waiter := range able {
		holder := able[(i+1)%len(able)]
		r.checkWakes("of "+waiter.String()+" after "+holder.String(), holder, waiter, holder.giveBack)
		// The same when the waiter's own client has left the lock to the other one.
		r.checkWakes("of "+waiter.String()+" left to "+holder.String(), waiter, waiter, func(h *held) {
			h.unlocks.Add(1)
			token, err := h.lock.Detach(context.Background())
			r.left.Store(string(token), nil)
			var same *redlock.Lock
			if err == nil {
				same, err = holder.locker.Attach(context.Background(), h.name, token)
			}
			if err == nil {
				pass(unit)
				err = same.Unlock(context.Background())
			}
			if err != nil && !r.plan.forgetful {
				r.violate("%v left a lock to %v, with nothing in the way: %v", waiter, holder, err)
			}
		})
	}
}

// checkWakes checks that a waiter has a lock soon after its holder has given it back.
func (r *run) checkWakes(name string, holder, waiter *client, giveBack func(*held)) {
	s := step{ttl: long, limit: long / 2}
	h, err := holder.lock(name, s)
	if err != nil {
		r.violate("%v: with nothing in its way: %v", holder, err)
		return
	}
	var group sync.WaitGroup
	var next *held
	group.Go(func() { next, err = waiter.lock(name, s) })
	pass(calmTime / 3)
	freed := time.Now()
	giveBack(h)
	group.Wait()
	if err != nil {
		r.violate("%v: when the lock that it waited for was free: %v", waiter, err)
		return
	}
	if took := time.Since(freed); took > time.Second {
		r.violate("%v slept for %v when the lock that it waited for was free", waiter, took)
	}
	waiter.giveBack(next)
}

// checkLeft checks that there is a reason for each key that a server still has.
func (r *run) checkLeft(s *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.keys {
		e, ok := s.getLocked(key)
		if !ok || time.Until(e.ends) < time.Second {
			continue
		}
		tokens := []string{e.token}
		if e.token == readers || e.token == slots {
			tokens = s.sharing(key)
			if len(tokens) == 0 {
				r.violate("%s is left on server %d for %v, and nobody reads it", key, s.number, time.Until(e.ends))
			}
		}
		for _, token := range tokens {
			r.checkTokenLeft(s, key, token, e.ends)
		}
	}
}

func (r *run) checkTokenLeft(s *server, key, token string, ends time.Time) {
	owner := slices.IndexFunc(r.clients, func(c *client) bool { return c.drew(token) })
	switch c := r.clients[owner]; {
	case !r.plan.permits: // an abandoned connection is read after the clean-up
	case s.stuck[token]: // the server has refused the release
	case r.isLeft(token): // what its first holder has sent may come after the release of the second
	case c.untidy[s.number].Load():
	case c.ended[s.number].Load() != nil && (!r.plan.calm() || c.won[token]):
	default:
		r.violate("%s of %s is left on server %d for %v", key, token, s.number, time.Until(ends))
	}
}

// checkNoGoroutineIsLeft looks for goroutines of the library after everything was closed.
func (r *run) checkNoGoroutineIsLeft() {
	synctest.Wait()
	for _, one := range strings.Split(stacks(), "\n\n") {
		if strings.Contains(one, "quorumlock/internal/node.") || strings.Contains(one, "quorumlock/redlock.") {
			panic("a goroutine is left: " + one + "\n" + r.report())
		}
	}
}
