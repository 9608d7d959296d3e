package main

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

const (
	// The back-off of a Lock that waits: long enough for each attempt to be seen.
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 250 * time.Millisecond

	lockPatience = 10 * time.Second // a step fails if its Lock waits for longer
	votePatience = 2 * time.Second  // for votes, which are due within the node timeout
)

// party is one of those who want the lock. It has connections and a Locker of its own, as if it
// were another program. Its methods show what the Observer saw.
type party struct {
	s      *scenario
	name   string
	locker *redlock.Locker
	seen   *recorder
	lock   *redlock.Lock // to be released
	asked  int           // how many nodes may hold the lock: its release asks these
}

func (s *scenario) newParty(name string, opts ...redlock.Option) (*party, error) {
	p := &party{s: s, name: name, seen: newRecorder(s.n)}
	var err error
	p.locker, err = redlock.Open(s.urls, append(opts, silent,
		pool.WithTimeout(s.timeout), pool.WithClientName("redlock-demo"), pool.WithDialer(s.network.dial),
		redlock.TTL(s.ttl), redlock.WithObserver(p.seen, protocol.Votes, protocol.Rounds), redlock.WithBackoff(firstBackoff, maxBackoff))...)
	if err != nil {
		return nil, err
	}
	s.parties = append(s.parties, p)
	return p, nil
}

// close releases the lock that the party still holds, and closes its connections.
func (p *party) close() error {
	var err error
	if p.lock != nil {
		err = p.lock.Unlock(context.Background())
		if errors.Is(err, redlock.ErrNotHeld) { // the lock has ended already
			err = nil
		}
	}
	return errors.Join(err, p.locker.Close())
}

// observe returns the one round of an operation. The round is nil if it is not complete in time.
func (p *party) observe(ctx context.Context, op event.Op, asked int, operation func() error) (*round, error) {
	p.seen.watch(op)
	err := operation()
	ctx, cancel := context.WithTimeout(ctx, p.s.timeout+votePatience)
	defer cancel()
	seen, missing := p.seen.wait(ctx, 0, asked)
	return seen, errors.Join(err, missing)
}

// try asks for the lock once. It returns the error of TryLock.
func (p *party) try(ctx context.Context, opts ...redlock.LockOption) error {
	seen, err := p.observe(ctx, event.OpAcquire, p.s.n, func() (err error) {
		p.lock, err = p.locker.TryLock(ctx, p.s.name, opts...)
		return err
	})
	if seen == nil {
		return err
	}
	p.asked = p.s.n - len(seen.with(protocol.AnswerUnsent, protocol.AnswerNo))
	p.s.up = seen.with(protocol.AnswerYes, protocol.AnswerNo)
	p.s.show.votes(seen)
	if err != nil {
		p.s.show.outcome(seen, bad, "%s is refused after %s: %s", p.name, benchreport.Duration(seen.verdict.Took), p.s.why(seen))
	} else {
		p.s.show.outcome(seen, good, "%s has the lock after %s, valid for %s",
			p.name, benchreport.Duration(seen.verdict.Took), benchreport.Duration(seen.verdict.Validity))
	}
	return err
}

// wait waits for the lock, and returns how many attempts were refused before. It calls refused,
// if that is not nil, after each of them.
func (p *party) wait(ctx context.Context, refused func(refusals int)) (refusals int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience+p.s.timeout)
	defer cancel()
	p.seen.watch(event.OpAcquire)
	began := time.Now()
	locked := make(chan error)
	go func() {
		var err error
		if p.lock, err = p.locker.Lock(ctx, p.s.name); err != nil {
			cancel()
		}
		locked <- err
	}()
	for {
		seen, err := p.seen.wait(ctx, refusals, p.s.n)
		if err != nil {
			cancel()
			return refusals, errors.Join(<-locked, err)
		}
		since := benchreport.Duration(time.Since(began))
		if seen.verdict.Err == nil {
			p.s.show.outcome(seen, good, "%9s  %s has the lock, valid for %s", since, p.name, benchreport.Duration(seen.verdict.Validity))
			p.asked = p.s.n - len(seen.with(protocol.AnswerUnsent, protocol.AnswerNo))
			return refusals, <-locked
		}
		p.s.show.outcome(seen, odd, "%9s  %s waits: %s", since, p.name, p.s.why(seen))
		refusals++
		if refused != nil {
			refused(refusals)
		}
	}
}

// release returns the error of Unlock.
func (p *party) release(ctx context.Context) error {
	seen, err := p.observe(ctx, event.OpUnlock, p.asked, func() error {
		err := p.lock.Unlock(ctx)
		if err == nil || errors.Is(err, redlock.ErrNotHeld) {
			p.lock = nil
		}
		return err
	})
	switch {
	case seen == nil:
	case err != nil:
		p.s.show.votes(seen)
		p.s.show.outcome(seen, bad, "%s's release is refused after %s: %s", p.name, benchreport.Duration(seen.verdict.Took), p.s.why(seen))
	default:
		p.s.show.outcome(seen, good, "%s has released it after %s", p.name, benchreport.Duration(seen.verdict.Took))
	}
	return err
}

// extend extends the lock, which a majority must still hold.
func (p *party) extend(ctx context.Context) error {
	seen, err := p.observe(ctx, event.OpExtend, p.s.n, func() error { return p.lock.Extend(ctx, p.s.ttl) })
	if err != nil {
		return err
	}
	p.asked = p.s.n - len(seen.with(protocol.AnswerUnsent))
	p.s.show.outcome(seen, good, "%s's lock is untouched: extended, and valid for %s", p.name, benchreport.Duration(seen.verdict.Validity))
	return nil
}
