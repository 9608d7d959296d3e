package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	beat     = 150 * time.Millisecond // between two acts, to be followed by eye
	patience = 10 * time.Second       // for a Lock that waits: then its step has failed
	grace    = 2 * time.Second        // for votes that are due within the node timeout
	// attempts is how often a Lock is refused before the nodes come back.
	attempts = 3
)

// story is the demo while it runs. Its methods show what happens, and return an
// error where it is not what has to happen.
type story struct {
	show    *show
	servers servers
	name    string // the lock's
	ttl     time.Duration
	timeout time.Duration

	number  int       // of the step
	clients []*client // to be closed
	n, need int       // nodes, and how many make a majority
	up      []int     // the nodes that answered the last acquire
	down    []int     // the nodes that are stopped
	a, b    *client
}

func (s *story) tell(ctx context.Context) error {
	began := time.Now()
	if err := s.begin(); err != nil {
		return err
	}
	s.show.title(s.a.nodes, s.need, s.servers.words().about, s.name)
	steps := []func(context.Context) error{
		s.taken, s.refused, s.withoutMinority, s.withoutMajority, s.waited, s.overslept,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("step %d went otherwise: %w", s.number, err)
		}
	}
	s.show.end(s.number, time.Since(began))
	return nil
}

// begin makes the first two clients. They connect when they need to.
func (s *story) begin() (err error) {
	if s.a, err = s.client("A"); err != nil {
		return err
	}
	s.b, err = s.client("B")
	s.n = len(s.a.nodes)
	s.need = s.n/2 + 1
	return err
}

func (s *story) client(name string) (*client, error) {
	c, err := newClient(name, s.servers, s.ttl, s.timeout)
	if err == nil {
		s.clients = append(s.clients, c)
	}
	return c, err
}

// close gives the nodes back as they were, and ends the clients.
func (s *story) close() error {
	var failed []error
	for _, i := range s.down {
		failed = append(failed, s.servers.start(i))
	}
	for _, c := range s.clients {
		if err := c.close(); err != nil {
			failed = append(failed, fmt.Errorf("closing client %s: %w", c.name, err))
		}
	}
	return errors.Join(failed...)
}

// next begins a step.
func (s *story) next(ctx context.Context, title string, args ...any) error {
	s.number++
	s.show.step(s.number, fmt.Sprintf(title, args...))
	return pause(ctx)
}

// taken: a lock is taken.
func (s *story) taken(ctx context.Context) error {
	if err := s.next(ctx, "A takes the lock. It asks all %d nodes at once.", s.n); err != nil {
		return err
	}
	seen, err := s.try(ctx, s.a, true)
	switch {
	case err != nil:
		return fmt.Errorf("the lock should have been taken: %w", err)
	case len(seen.with(pool.Yes)) < s.need:
		return fmt.Errorf("the lock was taken with %d yes, and %d are needed", len(seen.with(pool.Yes)), s.need)
	}
	return s.holds(s.a)
}

// refused: what A holds is refused to B.
func (s *story) refused(ctx context.Context) error {
	if err := s.next(ctx, "B asks for it too, while A has it."); err != nil {
		return err
	}
	if _, err := s.try(ctx, s.b, true); !errors.Is(err, redlock.ErrTaken) {
		return otherwise("B should have been refused", redlock.ErrTaken, err)
	}
	return s.holds(s.a)
}

// withoutMinority: the lock is taken while as many nodes are stopped as may be.
func (s *story) withoutMinority(ctx context.Context) error {
	minority := s.n - s.need
	if err := s.next(ctx, "A gives it back, and %s %s. Left: %d of %d.",
		count(minority), s.servers.words().short, len(s.up)-minority, s.n); err != nil {
		return err
	}
	if err := s.giveBack(ctx, s.a); err != nil {
		return err
	}
	if err := s.stop(ctx, minority); err != nil {
		return err
	}
	seen, err := s.try(ctx, s.b, true)
	if err != nil {
		return fmt.Errorf("the lock should have been taken without the nodes that are %s: %w", s.servers.words().stopped, err)
	}
	for _, i := range s.down {
		if seen.votes[i].Answer == pool.Yes {
			return fmt.Errorf("node %s is %s, and said yes", seen.votes[i].Addr, s.servers.words().stopped)
		}
	}
	return s.holds(s.b)
}

// withoutMajority: with one node less the lock is refused, and the error names each
// node that is stopped.
func (s *story) withoutMajority(ctx context.Context) error {
	if err := s.next(ctx, "B gives it back, and one more is %s. Left: %d of %d.",
		s.servers.words().short, len(s.up)-1, s.n); err != nil {
		return err
	}
	if err := s.giveBack(ctx, s.b); err != nil {
		return err
	}
	if err := s.stop(ctx, 1); err != nil {
		return err
	}
	_, err := s.try(ctx, s.a, true)
	if !errors.Is(err, redlock.ErrNoQuorum) {
		return otherwise("A should have been refused", redlock.ErrNoQuorum, err)
	}
	var refusal *redlock.QuorumError
	if !errors.As(err, &refusal) || len(refusal.Nodes) != s.n {
		return fmt.Errorf("the refusal should name the %d nodes: %w", s.n, err)
	}
	for _, i := range s.down {
		if reason := refusal.Nodes[i].Err; reason == nil || errors.Is(reason, redlock.ErrPending) {
			return fmt.Errorf("the refusal has no reason for node %s: %w", refusal.Nodes[i].Addr, err)
		}
	}
	return nil
}

// waited: A gets the lock when the nodes are back.
func (s *story) waited(ctx context.Context) error {
	if err := s.next(ctx, "A waits for the lock, and the nodes come back."); err != nil {
		return err
	}
	refusals, err := s.wait(ctx, s.a, func(refusal int) error {
		if refusal == attempts {
			return s.startAll()
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("the lock should be A's now that the nodes are back: %w", err)
	case refusals < attempts:
		return fmt.Errorf("the lock should not have been A's before the nodes were back: it was after %d attempts", refusals)
	}
	if err := s.holds(s.a); err != nil {
		return err
	}
	return s.giveBack(ctx, s.a)
}

// overslept: a release is refused when the lock is no longer the holder's, and does
// not touch the lock of the next one.
func (s *story) overslept(ctx context.Context) error {
	if err := s.next(ctx, "C takes it for %s but works for longer, and D takes it next.", duration(s.short())); err != nil {
		return err
	}
	c, err := s.client("C")
	if err != nil {
		return err
	}
	d, err := s.client("D")
	if err != nil {
		return err
	}
	if err := s.expire(ctx, c); err != nil {
		return err
	}
	if _, err := s.wait(ctx, d, nil); err != nil {
		return fmt.Errorf("the lock should be D's now that C's has expired: %w", err)
	}
	if _, err := s.unlock(ctx, c, true); !errors.Is(err, redlock.ErrNotHeld) {
		return otherwise("C's release should have been refused", redlock.ErrNotHeld, err)
	}
	if err := s.extend(ctx, d); err != nil {
		return fmt.Errorf("the lock of D should be untouched: %w", err)
	}
	return s.giveBack(ctx, d)
}

// short is a TTL that is soon over, and leaves some validity however slow the nodes are.
func (s *story) short() time.Duration { return s.timeout + 300*time.Millisecond }

// expire has c take the lock for a short time and waits until it is over.
func (s *story) expire(ctx context.Context, c *client) error {
	if _, err := s.try(ctx, c, false, redlock.TTL(s.short())); err != nil {
		return fmt.Errorf("the lock should have been taken: %w", err)
	}
	began := time.Now()
	select {
	case <-c.lock.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.lock.Err(); !errors.Is(err, redlock.ErrExpired) {
		return otherwise("C's lock should have ended", redlock.ErrExpired, err)
	}
	s.show.expired(c.name, c.lock.Err(), time.Since(began))
	return nil
}

// pause waits for a beat.
func pause(ctx context.Context) error { return clock.Sleep(ctx, clock.System(), beat) }

// otherwise says that an error is not the one that had to come.
func otherwise(what string, want, err error) error {
	if err == nil {
		return fmt.Errorf("%s with %q: it was not", what, want.Error())
	}
	return fmt.Errorf("%s with %q: %w", what, want.Error(), err)
}
