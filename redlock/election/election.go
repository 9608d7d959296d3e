// Package election makes one of several processes the leader.
//
// The leader holds a lock, and renews it for as long as it leads. The others wait for the lock, and may ask who leads.
//
//	e := election.New(locker, "scheduler", redlock.Metadata(address))
//	err := e.Run(ctx, func(ctx context.Context, term *redlock.Lock) error {
//		return schedule(ctx, term.Fence()) // until ctx ends
//	})
//
// The lock is the term of the leader. Done tells that the term is over, Unlock resigns, and Fence is the number of the
// term.
//
// The lock is a lease. If too few nodes answer, the term ends at its deadline, and nobody leads until they are back. A
// leader that is paused may write when the next one leads already. So open the Locker with [redlock.WithFencing], and
// send the number of the term with each write: package fence rejects the numbers of earlier leaders. A leader that
// needs time to stop needs [redlock.Grace].
package election

import (
	"context"
	"errors"
	"iter"

	"github.com/quorumlock/quorumlock/redlock"
)

// ErrNoLeader means that nobody is known to lead.
var ErrNoLeader = errors.New("election: no leader")

// Election is an election in which a process may take part, or which it observes. It is safe for concurrent use.
type Election struct {
	locker *redlock.Locker
	name   string
	opts   []redlock.LockOption
}

// New returns the election of a name: the leader holds the lock of that name. The options are the options of this lock.
// [redlock.Metadata] is the text that the others see of the leader, such as its address. If the leader's process dies,
// another leads after the [redlock.TTL]. Mistakes in the options are errors of Campaign and Run, with
// [redlock.ErrInvalid].
func New(locker *redlock.Locker, name string, opts ...redlock.LockOption) *Election {
	return &Election{locker, name, opts}
}

// Campaign waits until this process leads, and returns its term. The term is renewed until it is unlocked or lost; a
// [redlock.RenewFor] among the options of New limits that. When the term is unlocked, another process that campaigns
// leads within about a round trip. The errors are the same as for [redlock.Locker.Lock].
func (e *Election) Campaign(ctx context.Context) (term *redlock.Lock, err error) {
	return e.locker.Lock(ctx, e.name, append([]redlock.LockOption{redlock.RenewFor(redlock.NoLimit)}, e.opts...)...)
}

// Run campaigns, and calls lead when this process leads. When the term is lost, and lead has returned, Run campaigns
// again. The context of lead ends with the term, and with ctx.
//
// If lead returns while the term lasts, Run ends the term and returns the error of lead, which may be nil. If Run finds
// only at the end that the term was lost, the error matches [redlock.ErrLost]. If nodes refuse the release at the
// end, Run returns [redlock.ErrNoQuorum] as [redlock.Locker.Do] does.
//
// If ctx ends while this process leads, Run waits for lead and returns its result. Otherwise it returns an error that
// matches ctx.Err().
//
// If a campaign of Run fails, the error is that of Do, with [redlock.ErrNotRun], for example because
//   - lead is nil, or an option is invalid ([redlock.ErrInvalid]);
//   - the Locker was closed ([redlock.ErrClosed]);
//   - the caller already holds the lock ([redlock.ErrDeadlock]);
//   - data of another program is in the way ([redlock.ErrForeign]);
//   - the nodes have faults that do not end by themselves (ErrNoQuorum);
//   - [redlock.MaxWait] or [redlock.MaxOutage] is over.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term *redlock.Lock) error) error {
	if lead == nil {
		return e.locker.Do(ctx, e.name, nil, e.opts...) // which refuses it
	}
	for {
		// lost records that this term was lost. The error of Do does not show that, because lead may return the loss of
		// another lock.
		lost := false
		led := func(ctx context.Context, term *redlock.Lock) error {
			err := lead(ctx, term)
			lost = errors.Is(term.Err(), redlock.ErrLost)
			return err
		}
		if err := e.locker.Do(ctx, e.name, led, e.opts...); !lost || ctx.Err() != nil {
			return err
		}
	}
}

// Leader asks the nodes who leads now. The Fence of the Holder is the number of its term. Its TTL is the time until
// another may lead, unless the leader renews its lock. The error is [ErrNoLeader] if nobody does. Otherwise it is an
// error of [redlock.Locker.Inspect].
func (e *Election) Leader(ctx context.Context) (redlock.Holder, error) {
	return leader(e.locker.Inspect(ctx, e.name))
}

// Observe yields the leader, and then each leader that follows, or [ErrNoLeader] while there is none. It looks, ends
// and fails as [redlock.Locker.Watch] does.
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
