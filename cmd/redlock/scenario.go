package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
	"github.com/quorumlock/quorumlock/redlock/fence"
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
	servers []*node.Server
	name    string // of the lock
	ttl     time.Duration
	timeout time.Duration

	number  int // of the step
	n, need int // nodes, and how many of them are a majority
	a, b    *party
	parties []*party
	counted bool     // nodes may have a counter of the lock
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
		s.acquired, s.refused, s.withoutMinority, s.withoutMajority, s.waited, s.expired, s.lost, s.fenced,
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
	if s.counted {
		s.forget()
	}
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
	return s.free(ctx, s.a)
}

// expired: the release of a lock that has expired is refused, and leaves the lock of the next
// holder alone.
func (s *scenario) expired(ctx context.Context) error {
	s.show.step(s.number, "C acquires it for %s but works for longer, and D acquires it next.", benchreport.Duration(s.short()))
	c, errC := s.newParty("C")
	d, errD := s.newParty("D")
	if err := errors.Join(errC, errD); err != nil {
		return err
	}
	worked, err := s.overrun(ctx, c)
	if err != nil {
		return err
	}
	if err := expect("C's lock to end", redlock.ErrExpired, c.lock.Err()); err != nil {
		return err
	}
	s.show.line("%s", odd.Sprintf("C works for %s, and then: %v", benchreport.Duration(worked), errors.Unwrap(c.lock.Err())))
	_, err = d.wait(ctx, nil)
	if err := expect("D to get the lock, which has expired for C", nil, err); err != nil {
		return err
	}
	if err := expect("C's release to be refused", redlock.ErrNotHeld, c.release(ctx)); err != nil {
		return err
	}
	if err := expect("D to hold the lock after C's release", nil, d.extend(ctx)); err != nil {
		return err
	}
	return s.free(ctx, d)
}

// lost: the holder of a renewed lock hears that its key has gone.
func (s *scenario) lost(ctx context.Context) error {
	s.show.step(s.number, "A renews the lock, and an operator removes it by force.")
	// A renewal is due after a third of the TTL, and notices it if the nodes do not push the change.
	if err := expect("A to get the lock", nil, s.a.try(ctx, redlock.RenewFor(redlock.NoLimit), redlock.TTL(s.timeout+time.Second))); err != nil {
		return err
	}
	work, cancel := s.a.lock.Context(ctx)
	defer cancel()
	began := time.Now()
	if _, err := s.b.locker.ForceUnlock(ctx, s.name); err != nil {
		return fmt.Errorf("expected the lock to be removed, but got: %w", err)
	}
	<-work.Done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	cause := context.Cause(work)
	if err := expect("the context of A's work to end", redlock.ErrLost, cause); err != nil {
		return err
	}
	why := redlock.ErrGone
	if errors.Is(cause, redlock.ErrExpired) {
		why = redlock.ErrExpired
	}
	s.show.line("%s", odd.Sprintf("the context of A's work ends after %s: %v", benchreport.Duration(time.Since(began)), display.Error(why)))
	s.a.lock = nil
	return s.settled(ctx)
}

// fenced: the resource rejects the late write of a holder that was paused.
func (s *scenario) fenced(ctx context.Context) error {
	s.show.step(s.number, "C and D have numbers. C is paused, and writes after D (fencing).")
	s.counted = true
	c, errC := s.newParty("C", redlock.WithFencing(), redlock.WithFenceTTL(time.Minute))
	d, errD := s.newParty("D", redlock.WithFencing(), redlock.WithFenceTTL(time.Minute))
	if err := errors.Join(errC, errD); err != nil {
		return err
	}
	if _, err := s.overrun(ctx, c); err != nil {
		return err
	}
	if _, err := d.wait(ctx, nil); err != nil {
		return fmt.Errorf("expected D to get the lock, but got: %w", err)
	}
	var account fence.Gate
	write := func() error { return nil }
	first, late := d.lock.Fence(), c.lock.Fence()
	if err := expect("the write of D to pass", nil, account.Run("account", first, write)); err != nil {
		return err
	}
	s.show.line("%s", good.Sprintf("D writes with %d: done", first))
	if err := expect("the late write of C to be refused", fence.ErrStale, account.Run("account", late, write)); err != nil {
		return err
	}
	s.show.line("%s", bad.Sprintf("C writes with %d: refused, as it has seen %d", late, first))
	c.lock = nil
	return s.free(ctx, d)
}

// short is the TTL of a lock that is soon over, with some validity left however slow the nodes are.
func (s *scenario) short() time.Duration { return s.timeout + 300*time.Millisecond }

// overrun makes a party take the lock for a short time, and work until the lock has ended.
func (s *scenario) overrun(ctx context.Context, p *party) (worked time.Duration, err error) {
	if err := expect(p.name+" to get the lock", nil, p.try(ctx, redlock.TTL(s.short()))); err != nil {
		return 0, err
	}
	began := time.Now()
	select {
	case <-p.lock.Done():
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// free ends a step: a party releases the lock on all nodes.
func (s *scenario) free(ctx context.Context, p *party) error {
	if err := expect(p.name+" to release the lock", nil, p.release(ctx)); err != nil {
		return err
	}
	return s.settled(ctx)
}

// settled waits until no node that is reachable has the key of the lock, so that every run shows the same answers.
func (s *scenario) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout+votePatience)
	defer cancel()
	for {
		state, err := s.a.locker.Inspect(ctx, s.name)
		if ctx.Err() != nil {
			return fmt.Errorf("expected the lock to be free on all nodes, but got: %w", errors.Join(err, ctx.Err()))
		}
		if !slices.ContainsFunc(state.Nodes, func(n redlock.NodeState) bool { return n.Kind != "" }) {
			return nil
		}
	}
}

// forget deletes the counters of the lock, as far as the nodes can be reached. Their TTL ends the others.
func (s *scenario) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout+votePatience)
	defer cancel()
	for _, server := range s.servers {
		c, err := client.Connect(ctx, server)
		if err != nil {
			continue
		}
		_, _ = c.Do(ctx, "DEL", "{"+s.name+"}:fence")
		c.Close()
	}
}

// releaseAndDisconnect begins a step: a party releases the lock, and the last n of the nodes that
// answered the last acquire become unreachable.
func (s *scenario) releaseAndDisconnect(ctx context.Context, p *party, n int, nodes string) error {
	left := max(0, len(s.up)-n)
	s.show.step(s.number, "%s releases it, and the demo disconnects %s. Left: %d of %d.", p.name, nodes, left, s.n)
	if err := s.free(ctx, p); err != nil {
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
