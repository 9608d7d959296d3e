package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// What the parties of a story do. Each act shows what the Observer saw of it.

// try has c ask for the lock once. The error is that of TryLock.
func (s *story) try(ctx context.Context, c *client, nodes bool, opts ...redlock.LockOption) (*round, error) {
	c.seen.watch("acquire")
	lock, err := c.locker.TryLock(ctx, s.name, opts...)
	c.lock = lock
	seen, missing := s.seen(ctx, c, s.n)
	if missing != nil {
		return nil, errors.Join(err, missing)
	}
	c.asked = s.n - len(seen.with(pool.Unsent))
	s.up = seen.with(pool.Yes, pool.No)
	if nodes {
		s.show.votes(seen)
	}
	s.show.acquired(c.name, seen)
	return seen, err
}

// wait has c wait for the lock, and returns how often it was refused before. After
// each refusal it calls refused, if that is not nil, with their number.
func (s *story) wait(ctx context.Context, c *client, refused func(int) error) (refusals int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience+s.timeout)
	defer cancel()
	c.seen.watch("acquire")
	began := time.Now()
	locked := make(chan error)
	go func() {
		var err error
		c.lock, err = c.locker.Lock(ctx, s.name)
		if err != nil {
			cancel()
		}
		locked <- err
	}()
	seen, err := s.follow(ctx, c, began, &refusals, refused)
	if err != nil {
		cancel()
		return refusals, errors.Join(<-locked, err)
	}
	c.asked = s.n - len(seen.with(pool.Unsent))
	return refusals, <-locked
}

// follow shows the rounds of a Lock as they go by, to the first that is won.
func (s *story) follow(ctx context.Context, c *client, began time.Time, refusals *int, refused func(int) error) (*round, error) {
	for {
		seen, err := c.seen.wait(ctx, *refusals, s.n)
		switch {
		case err != nil:
			return nil, err
		case seen.verdict.Err == nil:
			s.show.waited(c.name, seen, time.Since(began))
			return seen, nil
		}
		s.show.waiting(c.name, seen, time.Since(began))
		*refusals++
		if refused == nil {
			continue
		}
		if err := refused(*refusals); err != nil {
			return nil, err
		}
	}
}

// unlock has c give back its lock. The error is that of Unlock.
func (s *story) unlock(ctx context.Context, c *client, nodes bool) (*round, error) {
	c.seen.watch("unlock")
	err := c.lock.Unlock(ctx)
	if err == nil || errors.Is(err, redlock.ErrNotHeld) {
		c.lock = nil
	}
	seen, missing := s.seen(ctx, c, c.asked)
	if missing != nil {
		return nil, errors.Join(err, missing)
	}
	if nodes {
		s.show.votes(seen)
	}
	s.show.unlocked(c.name, seen)
	return seen, err
}

// giveBack is an unlock that has to succeed.
func (s *story) giveBack(ctx context.Context, c *client) error {
	if _, err := s.unlock(ctx, c, false); err != nil {
		return fmt.Errorf("%s should have given the lock back: %w", c.name, err)
	}
	return nil
}

// extend has c prolong its lock, which needs a majority that holds c's token.
func (s *story) extend(ctx context.Context, c *client) error {
	c.seen.watch("extend")
	err := c.lock.Extend(ctx, s.ttl)
	seen, missing := s.seen(ctx, c, c.asked)
	if err := errors.Join(err, missing); err != nil {
		return err
	}
	s.show.extended(c.name, seen)
	return s.holds(c)
}

// seen returns the one round of an operation that has returned.
func (s *story) seen(ctx context.Context, c *client, asked int) (*round, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout+grace)
	defer cancel()
	return c.seen.wait(ctx, 0, asked)
}

// holds checks that c has its lock.
func (s *story) holds(c *client) error {
	if err := c.lock.Err(); err != nil {
		return fmt.Errorf("%s should hold the lock: %w", c.name, err)
	}
	return nil
}

// stop stops the last n of the nodes that answered the last acquire.
func (s *story) stop(ctx context.Context, n int) error {
	for _, i := range s.up[max(0, len(s.up)-n):] {
		s.servers.stop(i)
		s.down = append(s.down, i)
		s.show.node(s.a.nodes[i].Addr(), s.servers.words().stopped)
	}
	return pause(ctx)
}

// startAll brings back the nodes that are stopped.
func (s *story) startAll() error {
	for len(s.down) > 0 {
		i := s.down[0]
		if err := s.servers.start(i); err != nil {
			return err
		}
		s.down = s.down[1:]
		s.show.node(s.a.nodes[i].Addr(), s.servers.words().started)
	}
	return nil
}
