package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/election"
	"github.com/quorumlock/quorumlock/redlock/redlocktest"
)

// candidate takes part in the election of "leader", as a process of its own.
func candidate(cluster *redlocktest.Cluster, name string, opts ...redlock.LockOption) *election.Election {
	return election.New(cluster.Locker(redlock.WithFencing()), "leader", append(opts, redlock.Metadata(name))...)
}

// leads waits until somebody else leads than before.
func leads(t *testing.T, terms <-chan redlock.Holder) redlock.Holder {
	t.Helper()
	select {
	case leader := <-terms:
		return leader
	case <-time.After(time.Hour):
		t.Fatal("nobody leads")
		return redlock.Holder{}
	}
}

// terms observes the election until the end of the test.
func terms(t *testing.T, e *election.Election) <-chan redlock.Holder {
	all := make(chan redlock.Holder, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for leader, err := range e.Observe(ctx) {
			if err == nil {
				all <- leader
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return all
}

func TestCampaign_TheNextLeadsWhenOneResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		a, b := candidate(cluster, "a"), candidate(cluster, "b")
		_, err := b.Leader(t.Context())
		require.ErrorIs(t, err, election.ErrNoLeader)
		seen := terms(t, b)
		first, err := a.Campaign(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", leads(t, seen).Metadata)
		cluster.Advance(time.Minute) // the term is renewed
		require.NoError(t, first.Err())
		leader, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, redlock.Holder{Token: first.Token(), Metadata: "a", Fence: first.Fence(), TTL: leader.TTL, Nodes: leader.Nodes}, leader)

		elected := make(chan *redlock.Lock, 1)
		go func() {
			term, err := b.Campaign(t.Context())
			if err == nil {
				elected <- term
			}
		}()
		synctest.Wait()
		require.Empty(t, elected)
		require.NoError(t, first.Unlock(t.Context()))
		second := <-elected
		require.Greater(t, second.Fence(), first.Fence())
		require.Equal(t, "b", leads(t, seen).Metadata)
		require.NoError(t, second.Unlock(t.Context()))
	})
}

func TestRun_CampaignsAgainWhenTheTermIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		begun, lost, ran := make(chan uint64), make(chan error, 1), make(chan error, 1)
		e := candidate(cluster, "a")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			ran <- e.Run(ctx, func(ctx context.Context, term *redlock.Lock) error {
				begun <- term.Fence()
				<-ctx.Done()
				lost <- context.Cause(ctx)
				return ctx.Err()
			})
		}()
		first := <-begun
		release := cluster.Steal("leader")
		cluster.Advance(10 * time.Second)
		require.ErrorIs(t, <-lost, redlock.ErrGone)
		release()
		require.Greater(t, <-begun, first)
		cancel()
		require.ErrorIs(t, <-ran, context.Canceled)
		_, err := e.Leader(t.Context())
		require.ErrorIs(t, err, election.ErrNoLeader)
	})
}

func TestRun_ReturnsWhatTheLeaderReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		e, broken := candidate(cluster, "a"), errors.New("broken")
		for _, returns := range []error{nil, broken} {
			require.Equal(t, returns, e.Run(t.Context(), func(context.Context, *redlock.Lock) error { return returns }))
		}
		require.ErrorIs(t, candidate(cluster, "a", redlock.TTL(-1)).Run(t.Context(), func(context.Context, *redlock.Lock) error { return nil }), redlock.ErrInvalid)
		require.ErrorIs(t, e.Run(t.Context(), nil), redlock.ErrInvalid)
	})
}

func TestRun_ReturnsTheErrorOfTheLeaderWithTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		broken, times := errors.New("broken"), 0
		err := candidate(cluster, "a").Run(t.Context(), func(ctx context.Context, term *redlock.Lock) error {
			if times++; times < 4 {
				defer cluster.Steal("leader")()
				cluster.Advance(10 * time.Second)
				<-ctx.Done()
			}
			return []error{nil, fmt.Errorf("query: %w", ctx.Err()), broken, errors.New("it led again")}[times-1]
		})
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, redlock.ErrGone)
		require.Equal(t, 3, times)
	})
}

// The danger: Run takes the loss of a lock within the term for that of the term, and leads again and again.
func TestRun_ReturnsTheLossOfAnotherLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		other, times := cluster.Locker(), 0
		err := candidate(cluster, "a").Run(t.Context(), func(ctx context.Context, term *redlock.Lock) error {
			times++
			return other.Do(ctx, "another", func(ctx context.Context, _ *redlock.Lock) error {
				defer cluster.Steal("another")()
				cluster.Advance(10 * time.Second)
				<-ctx.Done()
				require.NoError(t, term.Err())
				return ctx.Err()
			})
		})
		require.ErrorIs(t, err, redlock.ErrGone)
		require.Equal(t, 1, times)
	})
}

func TestRun_ReturnsThatTheTermWasLostUnnoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		times := 0
		err := candidate(cluster, "a").Run(t.Context(), func(context.Context, *redlock.Lock) error {
			times++
			cluster.Steal("leader")
			return nil
		})
		require.ErrorIs(t, err, redlock.ErrNotHeld)
		require.NotErrorIs(t, err, redlock.ErrNotRun)
		require.Equal(t, 1, times)
	})
}

// Observe says once that nobody leads while they come and go.
func TestLeader_ReadersAndSlotsLeadNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		e, readers := candidate(cluster, "a"), cluster.Locker()
		seen := 0
		for _, err := range e.Observe(t.Context()) {
			if seen++; seen == 2 {
				require.NoError(t, err)
				break
			}
			require.ErrorIs(t, err, election.ErrNoLeader)
			for range 2 {
				reader, err := readers.Lock(t.Context(), "leader", redlock.Shared())
				require.NoError(t, err)
				_, err = e.Leader(t.Context())
				require.ErrorIs(t, err, election.ErrNoLeader)
				cluster.Advance(2 * time.Second)
				require.NoError(t, reader.Unlock(t.Context()))
			}
			_, err = e.Campaign(t.Context())
			require.NoError(t, err)
		}
		require.Equal(t, 2, seen)
	})
}

func TestObserve_SaysThatNobodyLeadsAndThatNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		e := candidate(cluster, "a", redlock.TTL(time.Minute))
		var got []error
		for leader, err := range e.Observe(t.Context()) {
			got = append(got, err)
			switch len(got) {
			case 1:
				require.ErrorIs(t, err, election.ErrNoLeader)
				_, err = e.Campaign(t.Context())
				require.NoError(t, err)
			case 2:
				require.NoError(t, err)
				require.Equal(t, "a", leader.Metadata)
				cluster.Stop(0, 1)
			case 3:
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				cluster.Start(0, 1)
			case 4:
				require.NoError(t, err)
				return
			}
		}
	})
}
