package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

const (
	beat = 150 * time.Millisecond // between two steps, to be followed by eye
	// attempts is how often a Lock is refused before the nodes become reachable.
	attempts = 3
)

// scenario is the demo while it runs. Each step shows what happens, and returns an error if
// something else happens than it must.
type scenario struct {
	show    *show
	urls    []string
	about   string // the nodes
	network *network
	name    string // of the lock
	ttl     time.Duration
	timeout time.Duration

	number  int // of the step
	n, need int // nodes, and how many of them are a majority
	a, b    *party
	parties []*party
	up      []string // addresses of the nodes that answered the last acquire
	down    []string // addresses of the nodes that are unreachable
}

func (s *scenario) run(ctx context.Context) (err error) {
	began := time.Now()
	s.n = len(s.urls)
	s.need = s.n/2 + 1
	if s.a, err = s.newParty("A"); err != nil {
		return err
	}
	if s.b, err = s.newParty("B"); err != nil {
		return err
	}
	s.show.title(s.n, s.need, s.about, s.name)
	for i, step := range []func(context.Context) error{
		s.acquired, s.refused, s.withoutMinority, s.withoutMajority, s.waited, s.expired,
	} {
		s.number = i + 1
		if err := pause(ctx); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return fmt.Errorf("step %d failed: %w", s.number, err)
		}
	}
	s.show.end(s.number, time.Since(began))
	return nil
}

// close makes the nodes reachable, releases every lock and closes all connections.
func (s *scenario) close() error {
	var failed []error
	s.network.reconnect()
	for _, p := range s.parties {
		if err := p.close(); err != nil {
			failed = append(failed, fmt.Errorf("closing client %s: %w", p.name, err))
		}
	}
	return errors.Join(failed...)
}

func (s *scenario) acquired(ctx context.Context) error {
	s.show.step(s.number, "A acquires the lock. It asks all %d nodes at once.", s.n)
	return expect("A to get the lock", nil, s.a.try(ctx))
}

func (s *scenario) refused(ctx context.Context) error {
	s.show.step(s.number, "B asks for it too, while A holds it.")
	if err := expect("B to be refused", redlock.ErrTaken, s.b.try(ctx)); err != nil {
		return err
	}
	return expect("A to hold the lock", nil, s.a.lock.Err())
}

// withoutMinority: the lock can be acquired as long as a majority is reachable.
func (s *scenario) withoutMinority(ctx context.Context) error {
	minority := s.n - s.need
	nodes := "one node"
	if minority > 1 {
		nodes = fmt.Sprintf("%d nodes", minority)
	}
	if err := s.releaseAndDisconnect(ctx, s.a, minority, nodes); err != nil {
		return err
	}
	return expect("B to get the lock from the nodes that are left", nil, s.b.try(ctx))
}

// withoutMajority: with one node less the lock is refused.
func (s *scenario) withoutMajority(ctx context.Context) error {
	if err := s.releaseAndDisconnect(ctx, s.b, 1, "one more node"); err != nil {
		return err
	}
	return expect("A to be refused", redlock.ErrNoQuorum, s.a.try(ctx))
}

func (s *scenario) waited(ctx context.Context) error {
	s.show.step(s.number, "A waits for the lock until the nodes are reachable again.")
	refusals, err := s.a.wait(ctx, func(refusals int) {
		if refusals == attempts {
			s.network.reconnect()
			for _, addr := range s.down {
				s.show.node(addr, "reachable again")
			}
		}
	})
	if err := expect("A to get the lock now that the nodes are reachable again", nil, err); err != nil {
		return err
	}
	if refusals < attempts {
		return fmt.Errorf("expected A to wait for a majority of the nodes, but it got the lock after %d attempts", refusals)
	}
	return expect("A to release the lock", nil, s.a.release(ctx))
}

// expired: the release of a lock that has expired is refused, and leaves the lock of the next
// holder alone.
func (s *scenario) expired(ctx context.Context) error {
	// Soon over, with some validity left however slow the nodes are.
	ttl := s.timeout + 300*time.Millisecond
	s.show.step(s.number, "C acquires it for %s but works for longer, and D acquires it next.", benchreport.Duration(ttl))
	c, errC := s.newParty("C")
	d, errD := s.newParty("D")
	if err := errors.Join(errC, errD); err != nil {
		return err
	}
	if err := expect("C to get the lock", nil, c.try(ctx, redlock.TTL(ttl))); err != nil {
		return err
	}
	began := time.Now()
	select {
	case <-c.lock.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := expect("C's lock to end", redlock.ErrExpired, c.lock.Err()); err != nil {
		return err
	}
	s.show.line("%s", odd.Sprintf("C works for %s, and then: %v", benchreport.Duration(time.Since(began)), errors.Unwrap(c.lock.Err())))
	_, err := d.wait(ctx, nil)
	if err := expect("D to get the lock, which has expired for C", nil, err); err != nil {
		return err
	}
	if err := expect("C's release to be refused", redlock.ErrNotHeld, c.release(ctx)); err != nil {
		return err
	}
	if err := expect("D to hold the lock after C's release", nil, d.extend(ctx)); err != nil {
		return err
	}
	return expect("D to release the lock", nil, d.release(ctx))
}

// releaseAndDisconnect begins a step: a party releases the lock, and the last n of the nodes that
// answered the last acquire become unreachable.
func (s *scenario) releaseAndDisconnect(ctx context.Context, p *party, n int, nodes string) error {
	left := max(0, len(s.up)-n)
	s.show.step(s.number, "%s releases it, and the demo disconnects %s. Left: %d of %d.", p.name, nodes, left, s.n)
	if err := expect(p.name+" to release the lock", nil, p.release(ctx)); err != nil {
		return err
	}
	for _, addr := range s.up[left:] {
		s.network.disconnect(addr)
		s.down = append(s.down, addr)
		s.show.node(addr, "unreachable")
	}
	return pause(ctx)
}

// why explains in a few words why a majority did not do what was asked.
func (s *scenario) why(seen *round) string {
	err := seen.verdict.Err
	var refusal *redlock.QuorumError
	if errors.As(err, &refusal) {
		err = refusal.Reason
	}
	if errors.Is(err, redlock.ErrNoQuorum) {
		return fmt.Sprintf("%s (%d yes, %d needed)", display.Error(err), len(seen.with(protocol.AnswerYes)), s.need)
	}
	return display.Error(err)
}

// expect returns nil if err is want, which may be nil. Otherwise its error explains what should
// have happened and what happened instead.
func expect(what string, want, err error) error {
	if want != nil {
		what += fmt.Sprintf(" with %q", display.Error(want))
	}
	switch {
	case errors.Is(err, want):
		return nil
	case err == nil:
		return fmt.Errorf("expected %s, but it succeeded", what)
	}
	return fmt.Errorf("expected %s, but got: %w", what, err)
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(beat):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
