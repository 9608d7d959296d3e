// Package election makes one of several processes the leader (leader election).
//
// The leader holds a lock, and renews it while it leads. The others wait for the lock, and may ask who leads.
//
//	e := election.New(locker, "leader", redlock.Metadata(who))
//	err := e.Run(ctx, func(ctx context.Context, term *redlock.Lock) error {
//		return lead(ctx, term.Fence())
//	})
//
// The function leads until its context ends, and returns nil then. The lock is the term of the leader: Done tells that
// the term is over, Unlock resigns, and Fence is its number.
//
// If too few nodes answer, the term ends at its deadline, and nobody leads until they are back. A leader that is paused
// may write when the next one leads. So open the Locker with redlock.WithFencing, and send the number with each write:
// package fence rejects the numbers of earlier leaders. A leader that needs time to stop needs redlock.Grace.
package election

import (
	"context"
	"errors"
	"iter"

	"github.com/quorumlock/quorumlock/redlock"
)

// ErrNoLeader means that nobody is known to lead.
var ErrNoLeader = errors.New("election: no leader")

// Election is an election that a process takes part in or observes. It is safe for concurrent use.
type Election struct {
	locker *redlock.Locker
	name   string
	opts   []redlock.LockOption
}

// New returns the election of a name: the leader holds the lock of that name, with these options. redlock.Metadata is
// the text that others see of the leader, such as its address. If its process dies, another leads after the
// redlock.TTL. Wrong options are errors of Campaign and Run (redlock.ErrInvalid).
func New(locker *redlock.Locker, name string, opts ...redlock.LockOption) *Election {
	return &Election{locker, name, opts}
}

// Campaign waits until this process leads, and returns its term, which is renewed until it is unlocked or lost
// (redlock.RenewFor limits that). After an Unlock another process that campaigns leads within about a round trip. It
// returns the errors of redlock.Locker.Lock.
func (e *Election) Campaign(ctx context.Context) (term *redlock.Lock, err error) {
	return e.locker.Lock(ctx, e.name, append([]redlock.LockOption{redlock.RenewFor(redlock.NoLimit)}, e.opts...)...)
}

// Run campaigns, and calls lead when this process leads. The context of lead ends with the term and with ctx. When the
// term was lost, and lead has returned nil, context.Canceled or a redlock.ErrLost, Run campaigns again. Any other error
// ends Run, which returns it with the loss.
//
// If lead returns while the term lasts, Run ends the term and returns the error of lead, or nil. If ctx ends, Run waits
// for lead and returns its result, or without a term an error that matches ctx.Err(). So let lead return nil when its
// context ends, and treat context.Canceled as a clean end too. Other errors:
//   - redlock.ErrLost: the term was found lost only at the end;
//   - redlock.ErrNoQuorum: nodes refused the release, as in redlock.Locker.Do;
//   - the errors of a campaign, with redlock.ErrNotRun: redlock.ErrInvalid (also for a nil lead), ErrClosed,
//     ErrDeadlock, ErrForeign, ErrNoQuorum, or the end of redlock.MaxWait or redlock.MaxOutage.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term *redlock.Lock) error) error {
	if lead == nil {
		return e.locker.Do(ctx, e.name, nil, e.opts...) // which refuses it
	}
	for {
		// again records that this term was lost, and that lead returned for no other reason. The error of Do does not show
		// that, because lead may return the loss of another lock.
		again := false
		led := func(ctx context.Context, term *redlock.Lock) error {
			err := lead(ctx, term)
			ended := err == nil || errors.Is(err, context.Canceled) || errors.Is(err, redlock.ErrLost)
			again = ended && errors.Is(term.Err(), redlock.ErrLost)
			return err
		}
		if err := e.locker.Do(ctx, e.name, led, e.opts...); !again || ctx.Err() != nil {
			return err
		}
	}
}

// Leader asks the nodes who leads now. Fence is the number of the term, and TTL the time until another may lead, unless
// the leader renews its lock. The error is ErrNoLeader if nobody leads, else an error of redlock.Locker.Inspect.
func (e *Election) Leader(ctx context.Context) (redlock.Holder, error) {
	return leader(e.locker.Inspect(ctx, e.name))
}

// Observe yields the leader, and then each new one. While nobody leads it yields ErrNoLeader. It ends with ctx, and
// fails like redlock.Locker.Watch.
func (e *Election) Observe(ctx context.Context) iter.Seq2[redlock.Holder, error] {
	return func(yield func(redlock.Holder, error) bool) {
		nobody := false
		for state, err := range e.locker.Watch(ctx, e.name) {
			l, err := leader(state, err)
			before := nobody
			nobody = errors.Is(err, ErrNoLeader)
			if (!nobody || !before) && !yield(l, err) {
				return
			}
		}
	}
}

// leader converts the state of the lock to the leader. It returns ErrNoLeader if nobody is known to hold the exclusive
// lock.
func leader(s *redlock.LockState, err error) (redlock.Holder, error) {
	switch {
	case err != nil:
		return redlock.Holder{}, err
	case s.Verdict != redlock.VerdictHeld || s.Kind != redlock.KindExclusive: // readers and slots lead nobody
		return redlock.Holder{}, ErrNoLeader
	}
	return s.Holders[0], nil
}
