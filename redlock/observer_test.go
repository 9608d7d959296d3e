package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/journal"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

func TestObserver_IsNotifiedOfEveryVoteAndVerdict(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		fake.Advance(time.Hour)
		locker := c.locker(redlock.WithClock(fake), redlock.WithObserver(seen), redlock.WithKeyPrefix("prefix:"), redlock.WithDrift(0, time.Minute))
		c.do(4, "SET", "prefix:name", "theirs")

		lock := take(t, locker, "name", redlock.TTL(10*time.Minute))
		seen.waitForVotes(t, "acquire", "name", 5)
		require.NoError(t, lock.Extend(t.Context(), 20*time.Minute))
		seen.waitForVotes(t, "extend", "name", 5)
		unlock(t, lock)
		seen.waitForVotes(t, "unlock", "name", 5)

		for _, op := range []struct {
			name     event.Op
			validity time.Duration
			command  string // scripts go by their source at first
		}{{"acquire", 9 * time.Minute, "EVAL"}, {"extend", 19 * time.Minute, "EVAL"}, {"unlock", 0, "EVAL"}} {
			eventually(t, func() bool { return len(seen.verdictsOn(op.name)) > 0 }, "the verdict")
			require.Equal(t, []protocol.Round{{Op: op.name, Name: "name", Validity: op.validity}}, seen.verdictsOn(op.name))
			votes := seen.votesOn(op.name, "")
			for i, vote := range votes[:4] {
				require.Equal(t, protocol.Vote{
					Op: op.name, Name: "name", Node: i, Addr: c.servers[i].Addr(), Answer: protocol.AnswerYes, Command: op.command,
				}, vote)
			}
			require.Equal(t, protocol.AnswerNo, votes[4].Answer)
			require.ErrorIs(t, votes[4].Err, nodeerr.ErrHeld)
			require.Equal(t, 4, votes[4].Node)
			require.Equal(t, c.servers[4].Addr(), votes[4].Addr)
		}
	})
}

func TestObserver_IsNotifiedHowLongThingsTook(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	fake, seen := clocktest.New(), &recorder{}
	first := sync.OnceFunc(func() { fake.Advance(time.Second) })
	nodes := open(t, []string{c.servers[0].URL(), c.servers[1].URL(), "redis://127.0.0.1:1"}, throughWires(func(string, *tapped) { first() }))
	locker := lockerOver(t, nodes, redlock.WithClock(fake), redlock.WithObserver(seen), redlock.WithDrift(0, 0))
	lock := take(t, locker, "name", redlock.TTL(10*time.Second))
	seen.waitForVotes(t, "acquire", "name", 3)
	eventually(t, func() bool { return len(seen.verdictsOn("acquire")) > 0 }, "the verdict")
	require.Equal(t, []protocol.Round{{Op: "acquire", Name: "name", Took: time.Second, Validity: 9 * time.Second}}, seen.verdictsOn("acquire"))
	longest := time.Duration(0)
	for _, vote := range seen.votesOn("acquire", "name") {
		longest = max(longest, vote.Took)
	}
	require.Equal(t, time.Second, longest)
	unlock(t, lock)
}

func TestObserver_IsNotifiedOfRefusalsAndStragglers(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := c.observed()
	seen.connect(t, locker, 3)
	c.processes[2].Freeze()
	lock := take(t, locker, "held")
	seen.waitForVotes(t, "acquire", "held", 2) // a vote may be told after the verdict it has helped to
	require.Len(t, seen.votesOn("acquire", "held"), 2)
	c.do(0, "SET", "refused", "theirs")
	c.do(1, "SET", "refused", "theirs")
	_, err := locker.TryLock(t.Context(), "refused")
	require.ErrorIs(t, err, redlock.ErrTaken)
	c.processes[2].Thaw()

	seen.waitForVotes(t, "acquire", "held", 3)
	require.Equal(t, protocol.AnswerYes, seen.votesOn("acquire", "held")[2].Answer, "it came after the verdict")
	seen.waitForVotes(t, "acquire", "refused", 3)
	verdicts := seen.verdictsOn("acquire")
	require.Equal(t, err, verdicts[len(verdicts)-1].Err, "the error of the caller")
	require.Zero(t, verdicts[len(verdicts)-1].Validity)
	require.Empty(t, seen.votesOn("unlock", "refused"), "the rollback is no operation of the caller")
	unlock(t, lock)
}

type contextKey struct{}

func TestObserver_ACallAndItsLockBeginAndEndInOrder(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, seen := c.observed(redlock.WithFencing())
		ctx := context.WithValue(t.Context(), contextKey{}, "mine")
		lock := got(locker.TryLock(ctx, "name"))(t)
		require.NoError(t, lock.Unlock(ctx))
		end := waitFor[event.End](t, seen, 1)[0]

		a := waitFor[event.Acquire](t, seen, 1)[0]
		require.Equal(t, "mine", a.Context.Value(contextKey{}))
		require.Equal(t, event.OpAcquire, a.Op)
		require.Equal(t, "name", a.Name)
		require.Equal(t, "exclusive", a.Kind)
		require.True(t, a.Try)
		require.Equal(t, 1, a.Rounds)
		require.NoError(t, a.Err)
		require.Equal(t, lock.Fence(), a.Fence)
		require.Greater(t, a.Validity, long/2)
		require.GreaterOrEqual(t, a.Took, a.Wait)
		require.Equal(t, event.End{
			Context: a.Context, Call: a.Call, Name: "name", Kind: "exclusive", Start: end.Start, Held: end.Held, Err: redlock.ErrReleased,
		}, end)
		require.False(t, end.Start.Before(a.Start.Add(a.Took)))

		u := waitFor[event.Unlock](t, seen, 1)[0]
		require.NoError(t, u.Err)
		require.NotEqual(t, a.Call, u.Call)
		calls := map[event.Op]uint64{event.OpAcquire: a.Call, event.OpUnlock: u.Call}
		for _, v := range eventsOf[protocol.Vote](seen) {
			require.Equal(t, calls[v.Op], v.Call, "%+v", v)
			require.False(t, v.At.IsZero())
		}
		for _, v := range waitFor[protocol.Round](t, seen, 2) {
			require.Equal(t, calls[v.Op], v.Call, "%+v", v)
		}
	})
}

func TestObserver_IsToldOfARefusedCall(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	c.doAll("SET", "name", "theirs", "PX", long.Milliseconds())
	_, refused := locker.TryLock(t.Context(), "name")
	a := waitFor[event.Acquire](t, seen, 1)[0]
	require.Equal(t, refused, a.Err)
	require.Zero(t, a.Validity)
	require.ErrorIs(t, errOf(locker.Lock(briefly(t), "name")), context.DeadlineExceeded)
	a = waitFor[event.Acquire](t, seen, 2)[1]
	require.ErrorIs(t, a.Err, context.DeadlineExceeded)
	require.False(t, a.Try)
	require.Empty(t, eventsOf[event.End](seen))
}

// A busy lock is an answer for a caller who has limited the wait: its context has not ended.
func TestObserver_TellsTheEndOfMaxWaitFromThatOfTheContext(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	take(t, c.locker(), "name")
	ctx, cancel := context.WithCancel(t.Context())
	first := lockBeside(ctx, locker, "name") // those behind it ask no node
	seen.waitForRefusals(t, 1)

	var err error
	calls := 0
	eventually(t, func() bool {
		calls++
		_, err = locker.Lock(t.Context(), "name", redlock.MaxWait(time.Millisecond))
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no context has ended")
		return errors.Is(err, redlock.ErrTaken)
	}, "the first call knows that it is taken")
	refusal := as[*redlock.QuorumError](t, err)
	require.Same(t, refusal, waitFor[event.Acquire](t, seen, calls)[calls-1].Err)

	_, err = locker.Lock(briefly(t), "name", redlock.MaxWait(patient))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotContains(t, err.Error(), "MaxWait")
	require.Equal(t, err, waitFor[event.Acquire](t, seen, calls+1)[calls].Err)

	cancel()
	require.ErrorIs(t, receive(t, first, "the end of Lock").err, context.Canceled)
}

func TestObserver_SeesASplitVote(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 5), &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	seen.connect(t, locker, 5)
	split := func(nodes int) bool {
		c.doFirst(nodes, "SET", "name", "theirs", "PX", long.Milliseconds())
		before := len(eventsOf[event.Acquire](seen))
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
		waitFor[event.Acquire](t, seen, before+1)
		all := eventsOf[protocol.Round](seen)
		return all[len(all)-1].Split
	}
	// Of five nodes three are lost: whether one of the others says yes before the verdict is chance.
	eventually(t, func() bool { return split(3) }, "a split vote")
	require.False(t, split(5))
}

func TestObserver_IsToldHowOftenAndHowLongACallHasTried(t *testing.T) {
	onBothSilent(t, 3, func(t *testing.T, c *cluster) {
		holder := take(t, c.locker(), "name")
		locker, seen := c.waiting(c.nodes())
		waiter := lockBeside(t.Context(), locker, "name")
		seen.waitForRefusals(t, 2)
		unlock(t, holder)
		won(t, waiter)
		a := waitFor[event.Acquire](t, seen, 1)[0]
		require.GreaterOrEqual(t, a.Rounds, 3)
		require.Len(t, seen.verdictsOn("acquire"), a.Rounds)
		require.Positive(t, a.Wait)
		require.Greater(t, a.Took, a.Wait)
	})
}

func TestObserver_ALockEndsOnceHoweverItEnds(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		type row struct {
			end  func(t *testing.T, lock *redlock.Lock, fake *clocktest.Fake)
			want error
		}
		inTurn(t, map[string]row{
			"released": {func(t *testing.T, lock *redlock.Lock, _ *clocktest.Fake) {
				unlock(t, lock)
				require.Error(t, lock.Unlock(t.Context()))
			}, redlock.ErrReleased},
			"expired, and nobody asked": {func(_ *testing.T, lock *redlock.Lock, fake *clocktest.Fake) {
				fake.Advance(lock.Remaining())
			}, redlock.ErrExpired},
			"lost, as an extension finds": {func(t *testing.T, lock *redlock.Lock, _ *clocktest.Fake) {
				c.doAll("DEL", lock.Name())
				require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrGone)
			}, redlock.ErrGone},
			"lost, as only the release finds": {func(t *testing.T, lock *redlock.Lock, _ *clocktest.Fake) {
				c.doAll("DEL", lock.Name())
				require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
			}, redlock.ErrGone},
		}, func(t *testing.T, test row) {
			locker, fake, seen := c.timed()
			lock := c.everywhere(take(t, locker, "name", redlock.TTL(time.Minute)))
			test.end(t, lock, fake)
			end := waitFor[event.End](t, seen, 1)[0]
			require.ErrorIs(t, end.Err, test.want)
			_ = lock.Unlock(t.Context())
			require.NoError(t, locker.Close())
			require.Len(t, eventsOf[event.End](seen), 1)
			c.doAll("DEL", "name")
		})
	})
}

func TestObserver_SeesALossThatTheNodesAnnounce(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen), redlock.TTL(long))
	take(t, locker, "name", redlock.RenewFor(redlock.NoLimit))
	e := waitFor[event.Extend](t, seen, 1)[0]
	require.True(t, e.Renewal)
	require.NoError(t, e.Err)
	require.Greater(t, e.Left, long/2)
	require.GreaterOrEqual(t, e.Validity, e.Left)
	c.eventuallyTracked()
	c.doAll("DEL", "name")
	require.ErrorIs(t, waitFor[event.End](t, seen, 1)[0].Err, redlock.ErrGone)
}

func TestObserver_IsToldHowMuchValidityAnExtensionHadLeft(t *testing.T) {
	t.Parallel()
	c, seen, fake := onReal(t, 3), &recorder{}, clocktest.New()
	locker := c.locker(redlock.WithObserver(seen), redlock.WithClock(fake), redlock.WithDrift(0, 0))
	lock := take(t, locker, "name", redlock.TTL(time.Minute))
	fake.Advance(50 * time.Second)
	require.NoError(t, lock.Extend(t.Context(), 2*time.Minute))
	e := waitFor[event.Extend](t, seen, 1)[0]
	require.Equal(t, 10*time.Second, e.Left)
	require.Equal(t, 2*time.Minute, e.Validity)
	require.False(t, e.Renewal)
	fake.Advance(3 * time.Minute)
	require.ErrorIs(t, lock.Extend(t.Context(), time.Minute), redlock.ErrExpired)
	e = waitFor[event.Extend](t, seen, 2)[1]
	require.ErrorIs(t, e.Err, redlock.ErrExpired)
	require.Zero(t, e.Left)
	require.Zero(t, e.Validity)
}

func TestObserver_FollowsALockFromProcessToProcess(t *testing.T) {
	t.Parallel()
	c, first, second := onReal(t, 3), &recorder{}, &recorder{}
	lock := c.everywhere(take(t, c.locker(redlock.WithObserver(first)), "name"))
	token := detach(t, lock)
	end := waitFor[event.End](t, first, 1)[0]
	require.True(t, end.Detached)
	require.ErrorIs(t, end.Err, redlock.ErrReleased)

	same := got(c.locker(redlock.WithObserver(second)).Attach(t.Context(), "name", token))(t)
	a := waitFor[event.Acquire](t, second, 1)[0]
	require.Equal(t, event.OpAttach, a.Op)
	require.Zero(t, a.Rounds)
	unlock(t, same)
	end = waitFor[event.End](t, second, 1)[0]
	require.Equal(t, a.Call, end.Call)
	require.False(t, end.Detached)
}

func TestObserver_ALockThatIsTakenAgainEndsWithItsLastHandle(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	outer := take(t, locker, "name", redlock.Owner("me"))
	inner := take(t, locker, "name", redlock.Owner("me"), redlock.Reentrant())
	require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name", redlock.Owner("me"))), redlock.ErrDeadlock)
	unlock(t, inner)
	calls := waitFor[event.Acquire](t, seen, 3)
	require.False(t, calls[0].Reentered)
	require.True(t, calls[1].Reentered)
	require.ErrorIs(t, calls[2].Err, redlock.ErrDeadlock)
	require.Empty(t, eventsOf[event.End](seen))
	unlock(t, outer)
	require.Equal(t, calls[0].Call, waitFor[event.End](t, seen, 1)[0].Call)
}

func TestObserver_SeesTurnsPassBetweenProcesses(t *testing.T) {
	t.Parallel()
	c, here, there := onReal(t, 3), &recorder{}, &recorder{}
	mine, other := c.locker(redlock.WithObserver(here)), c.locker(redlock.WithObserver(there))
	has := func(seen *recorder, received bool) bool {
		return slices.ContainsFunc(eventsOf[protocol.Turn](seen), func(e protocol.Turn) bool {
			return e.Name == "name" && e.Received == received
		})
	}
	for !has(here, false) || !has(there, true) { // on a busy machine the other may come by itself
		takeTurns(t, mine, other)
	}
}

func TestObserver_SeesNodesGoDownAndComeBack(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	seen.connect(t, locker, 3)
	for _, up := range waitFor[event.NodeUp](t, seen, 3) {
		require.Equal(t, c.servers[up.Node].Addr(), up.Addr)
		require.Zero(t, up.Down)
		require.False(t, up.Quarantined)
	}
	c.processes[1].Stop()
	downs := waitFor[event.NodeDown](t, seen, 3)
	for i, down := range downs {
		require.Equal(t, 1, down.Node)
		require.Equal(t, i, down.Failed)
		require.Error(t, down.Err)
	}
	c.processes[1].Start()
	up := waitFor[event.NodeUp](t, seen, 4)[3]
	require.Equal(t, 1, up.Node)
	require.Positive(t, up.Down)

	late := &recorder{}
	nodes := c.nodes()
	seen.connect(t, lockerOver(t, nodes, redlock.WithObserver(seen)), 3)
	locker = lockerOver(t, nodes, redlock.WithObserver(late))
	waitFor[event.NodeUp](t, late, 3) // though they were connected before
	require.NoError(t, locker.Close())
	require.NoError(t, locker.Close())
	downs = waitFor[event.NodeDown](t, late, 3)
	require.Len(t, downs, 3)
	for _, down := range downs {
		require.Zero(t, down.Failed)
		require.ErrorIs(t, down.Err, nodeerr.ErrClosed)
	}
}

// Lockers share an Observer, which counts connections.
func TestObserver_SeesThatNoConnectionEndsWithALockerThatHasNone(t *testing.T) {
	t.Parallel()
	c, seen := onMini(t, 3), &recorder{}
	require.NoError(t, c.locker(redlock.WithObserver(seen)).Close())
	for _, down := range waitFor[event.NodeDown](t, seen, 3) {
		require.Positive(t, down.Failed)
		require.ErrorIs(t, down.Err, nodeerr.ErrClosed)
	}
}

func TestObserver_SeesAQuarantine(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	guard := pool.WithRestartGuard(time.Hour)
	durable := pool.WithDurable(func(i int) bool { return i > 0 })
	locker := lockerOver(t, c.nodes(guard, durable), redlock.WithObserver(seen), redlock.TTL(time.Minute))
	take(t, locker, "name")
	for _, up := range waitFor[event.NodeUp](t, seen, 3) {
		require.Equal(t, up.Node == 0, up.Quarantined)
		require.Equal(t, up.Node == 0, up.Left > time.Minute)
	}
}

func TestObserver_SeesACounterThatIsRaised(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen), redlock.WithFencing())
	now := time.Now().UnixMicro()
	for i, ahead := range []int64{900_000_000, 500, 100_000_000_000} {
		c.do(i, "SET", "{name}:fence", now+ahead)
	}
	lock := take(t, locker, "name")
	for _, e := range waitFor[protocol.Raise](t, seen, 1) {
		require.Less(t, e.Granted, e.Fence)
		require.Equal(t, lock.Fence(), e.Fence)
		require.Equal(t, c.servers[e.Node].Addr(), e.Addr)
		require.Equal(t, waitFor[event.Acquire](t, seen, 1)[0].Call, e.Call)
	}
}

func TestObserver_IsToldWhatOperatorsDo(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen), prefixed, redlock.WithHeal(time.Millisecond))
	require.NoError(t, errOf(locker.TryLock(t.Context(), "name", redlock.Metadata("backup"))))
	require.NoError(t, errOf(locker.ForceUnlock(t.Context(), "name")))
	forced := waitFor[event.ForceUnlock](t, seen, 1)[0]
	require.Equal(t, event.ForceUnlock{At: forced.At, Name: "name", Nodes: 3, Metadata: "backup"}, forced)

	c.leave("app:stuck", "somebody")
	unlock(t, waits(t, locker, "stuck"))
	healed := waitFor[event.Heal](t, seen, 2)[0]
	require.Equal(t, "stuck", healed.Name)
	require.Equal(t, c.servers[healed.Node].Addr(), healed.Addr)
}

func TestObserver_ThatHangsHoldsUpNoCallAndLearnsWhatItHasMissed(t *testing.T) {
	t.Parallel()
	c := onMini(t, 1)
	goOn, others := make(chan struct{}), &recorder{}
	var kept, dropped atomic.Int64
	locker := c.locker(redlock.WithObserver(event.ObserverFunc(func(e event.Event) {
		<-goOn
		switch e := e.(type) {
		case protocol.Raise:
			kept.Add(1)
		case event.Drop:
			dropped.Add(int64(e.Count))
		default:
			others.Observe(e)
		}
	}), others.Groups()...))
	unlock(t, take(t, locker, "before"))
	const more = 150_000
	for range more {
		locker.Emit(protocol.Raise{})
	}
	unlock(t, take(t, locker, "meanwhile"))
	close(goOn)
	require.NoError(t, locker.Close()) // which waits for a second at most
	eventually(t, func() bool { return kept.Load()+dropped.Load() >= more }, "all events, or that they were dropped")
	require.GreaterOrEqual(t, kept.Load(), int64(65_000))
	require.LessOrEqual(t, kept.Load(), int64(2*65_536))
	require.Equal(t, "before", eventsOf[event.Acquire](others)[0].Name)
}

func TestObserver_ThatHangsDoesNotKeepTheLockerFromClosing(t *testing.T) {
	t.Parallel()
	c, goOn := onMini(t, 1), make(chan struct{})
	locker := c.locker(redlock.WithObserver(event.ObserverFunc(func(event.Event) { <-goOn })))
	unlock(t, take(t, locker, "name"))
	require.NoError(t, locker.Close())
	close(goOn)
}

func TestObserver_SeesAnUnlockAfterClose(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	lock := take(t, locker, "name")
	require.NoError(t, locker.Close())
	require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrClosed)
	unlock(t, lock)
	require.ErrorIs(t, waitFor[event.End](t, seen, 1)[0].Err, redlock.ErrReleased)
}

func TestObserver_MayCallTheLocker(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	var locker *redlock.Locker
	states := make(chan error, 100)
	ready := make(chan struct{})
	locker = c.locker(redlock.WithObserver(event.ObserverFunc(func(e event.Event) {
		<-ready
		if _, ok := e.(event.Acquire); ok {
			_, err := locker.Inspect(context.Background(), "name")
			states <- err
		}
	})))
	close(ready)
	lock := take(t, locker, "name")
	require.NoError(t, receive(t, states, "the state"))
	unlock(t, lock)
	require.False(t, errors.Is(lock.Err(), redlock.ErrGone))
}

func TestObserver_ALockThatWasReleasedEndedWhenUnlockWasCalled(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	unlock(t, take(t, locker, "name"))
	end, unlock := waitFor[event.End](t, seen, 1)[0], waitFor[event.Unlock](t, seen, 1)[0]
	require.Equal(t, unlock.Start.Sub(end.Start), end.Held)
}

// RenewFor leaves nothing to renew, so that no renewal can notice the end.
func TestObserver_SeesTheEndOfALockThatMayNotBeRenewed(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen, log, fake := &recorder{}, &logBuffer{}, clocktest.New()
		opts := []redlock.LockOption{redlock.TTL(time.Minute), redlock.RenewFor(time.Minute)}
		observed := c.locker(redlock.WithObserver(seen), redlock.WithClock(fake))
		logged := c.logsTo(log, slog.LevelWarn, redlock.WithClock(fake))
		take(t, observed, "observed", opts...)
		take(t, logged, "logged", opts...)
		fake.Advance(time.Minute)
		require.ErrorIs(t, waitFor[event.End](t, seen, 1)[0].Err, redlock.ErrExpired)
		logged.Drain()
		fake.Advance(journal.Hold)
		require.Equal(t, []string{"WARN a lock is lost logged"}, lines(t, log, 1))
	})
}

func TestObserver_ARenewedLockEndsThoughItsLockerIsClosed(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen, fake := &recorder{}, clocktest.New()
		locker := c.locker(redlock.WithObserver(seen), redlock.WithClock(fake))
		lock := c.everywhere(take(t, locker, "name", redlock.RenewFor(redlock.NoLimit), redlock.TTL(time.Minute)))
		require.NoError(t, locker.Close())
		fake.Advance(time.Minute / 2)
		require.NoError(t, lock.Err())
		fake.Advance(time.Minute)
		require.ErrorIs(t, waitFor[event.End](t, seen, 1)[0].Err, redlock.ErrExpired)
	})
}

func TestObserver_AnExtensionOfALockThatWasOverHadNoValidityLeft(t *testing.T) {
	t.Parallel()
	c, seen := onMini(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	lock := take(t, locker, "name")
	require.ErrorIs(t, lock.Extend(over(t), 2*long), context.Canceled)
	unlock(t, lock)
	require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrReleased)
	extends := waitFor[event.Extend](t, seen, 2)
	require.Greater(t, extends[0].Left, long/2)
	require.Equal(t, extends[0].Validity, extends[0].Left)
	require.Zero(t, extends[1].Left)
}

func TestObserver_ATurnIsOneEventThoughSomeNodesPassItOnLate(t *testing.T) {
	t.Parallel()
	c, seen := onMini(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	holder := take(t, c.locker(), "name")
	waiter := lockBeside(t.Context(), locker, "name")
	eventually(t, func() bool { return redlock.Waiting(locker, "name") == 1 }, "a wait")
	locker.Message(0, "yours\nname")
	locker.Message(1, "yours\nname")
	unlock(t, holder)
	lock := won(t, waiter)
	locker.Message(2, "yours\nname") // when the turn has been taken
	unlock(t, lock)
	require.NoError(t, locker.Close())
	waitFor[event.NodeDown](t, seen, 3) // the last events
	require.Len(t, eventsOf[protocol.Turn](seen), 1)
}

func TestObserver_IsToldWhichCommandWasSentToANode(t *testing.T) {
	t.Parallel()
	type row struct {
		opts []redlock.Option
		want []string // of the third lock; the first two teach the server the scripts
	}
	inTurn(t, map[string]row{
		"plain":  {nil, []string{"SET", "EVALSHA", "EVALSHA"}},
		"fenced": {[]redlock.Option{redlock.WithFencing()}, []string{"EVALSHA", "EVALSHA", "EVALSHA"}},
	}, func(t *testing.T, test row) {
		onBoth(t, 1, func(t *testing.T, c *cluster) {
			seen := &recorder{}
			locker := c.locker(append(test.opts, redlock.WithObserver(seen))...)
			for range 3 {
				lock := take(t, locker, "name")
				require.NoError(t, lock.Extend(t.Context(), 2*long))
				unlock(t, lock)
			}
			var sent []string
			for _, v := range waitFor[protocol.Vote](t, seen, 9) {
				sent = append(sent, v.Command)
			}
			require.Equal(t, test.want, sent[6:])
			require.Equal(t, []string{"EVAL", "EVAL", "EVAL"}, sent[:3])
		})
	})
	c, seen := onReal(t, 1), &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	unlock(t, take(t, locker, "name"))
	c.processes[0].Stop()
	eventually(t, func() bool {
		return slices.ContainsFunc(eventsOf[event.NodeDown](seen), func(e event.NodeDown) bool { return e.Failed > 0 })
	}, "an attempt to connect that fails")
	require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrNoQuorum)
	require.Empty(t, waitFor[protocol.Vote](t, seen, 3)[2].Command, "nothing was sent")
}

// groups are the events of each group.
var groups = map[event.Group][]event.Event{
	event.Calls:     {event.Acquire{}, event.Extend{}, event.Unlock{}},
	event.Ends:      {event.End{}},
	protocol.Rounds: {protocol.Round{}, protocol.Raise{}},
	protocol.Votes:  {protocol.Vote{}},
	protocol.Turns:  {protocol.Turn{}},
	event.Nodes:     {event.NodeUp{}, event.NodeDown{Err: nodeerr.ErrBroken}, event.Quarantine{}},
	event.Keys:      {event.Stuck{}, event.Heal{}, event.ForceUnlock{}},
}

// types returns the types of events, each once, in order.
func types(events []event.Event) (all []string) {
	for _, e := range events {
		all = append(all, fmt.Sprintf("%T", e))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestWithObserver_EachIsToldOfItsKindsAndOfWhatWasDropped(t *testing.T) {
	t.Parallel()
	opts, seen := []redlock.Option{}, map[event.Group]*recorder{}
	for group := range groups {
		seen[group] = &recorder{}
		opts = append(opts, redlock.WithObserver(seen[group], group))
	}
	two, all, plain := &recorder{}, &recorder{}, &recorder{}
	opts = append(opts, redlock.WithObserver(nil), redlock.WithObserver(two, event.Ends, event.Nodes, event.Ends), redlock.WithObserver(all),
		redlock.WithObserver(event.ObserverFunc(plain.Observe)))
	locker := lockerOver(t, untouched(t), opts...)
	everything := slices.Concat(slices.Collect(maps.Values(groups))...)
	for _, e := range everything {
		locker.Emit(e)
	}
	locker.Emit(event.Drop{Count: 1})
	locker.Drain()
	drop := event.Event(event.Drop{Count: 1})
	for group, of := range groups {
		require.Equal(t, append(slices.Clone(of), drop), eventsOf[event.Event](seen[group]), "%s", group)
	}
	require.ElementsMatch(t, append(slices.Concat(groups[event.Ends], groups[event.Nodes]), drop), eventsOf[event.Event](two))
	require.Equal(t, append(everything, drop), eventsOf[event.Event](all))
	stable := slices.Concat(groups[event.Calls], groups[event.Ends], groups[event.Nodes], groups[event.Keys])
	require.ElementsMatch(t, append(stable, drop), eventsOf[event.Event](plain), "without groups, and without a method Groups")
}

// A Locker does not put together what nobody wants, so each group has to come without the others.
func TestWithObserver_EachKindComesWithoutTheOthers(t *testing.T) {
	t.Parallel()
	for group, of := range groups {
		t.Run(string(group), func(t *testing.T) {
			t.Parallel()
			c, seen := onReal(t, 3), &recorder{}
			want := types(of)
			if group == event.Keys { // the other takes 10 s
				want = []string{"event.ForceUnlock", "event.Heal"}
			}
			var opts []pool.Option
			if group == event.Nodes {
				c.inUse(20 * 24 * time.Hour)
				opts = append(opts, pool.WithRestartGuard(14*24*time.Hour))
			}
			locker := lockerOver(t, c.nodes(opts...), redlock.WithObserver(seen, group), prefixed, redlock.WithFencing(), redlock.WithHeal(time.Millisecond))
			now := time.Now().UnixMicro()
			for i, ahead := range []int64{900_000_000, 500, 100_000_000_000} {
				c.do(i, "SET", "{app:name}:fence", now+ahead)
			}
			lock := take(t, locker, "name")
			require.NoError(t, lock.Extend(t.Context(), 2*long))
			unlock(t, lock)
			require.NoError(t, errOf(locker.TryLock(t.Context(), "forced")))
			require.NoError(t, errOf(locker.ForceUnlock(t.Context(), "forced")))
			c.leave("app:stuck", "somebody")
			unlock(t, waits(t, locker, "stuck"))
			if group == protocol.Turns {
				other := c.locker(prefixed)
				for len(eventsOf[event.Event](seen)) == 0 { // on a busy machine the other may come by itself
					takeTurns(t, locker, other)
				}
			}
			if group == event.Nodes {
				eventually(t, func() bool { return len(eventsOf[event.NodeUp](seen)) == 3 }, "the connections")
				eventually(t, func() bool {
					c.do(0, "DEL", testredis.Stamps+c.servers[0].Addr())
					return len(eventsOf[event.Quarantine](seen)) > 0
				}, "it is pushed that the stamp is gone")
			}
			require.NoError(t, locker.Close())
			eventually(t, func() bool { return len(types(eventsOf[event.Event](seen))) >= len(want) }, "%s: %s", group, want)
			require.Equal(t, want, types(eventsOf[event.Event](seen)))
		})
	}
}

func TestWithObserver_EndsComeAlone(t *testing.T) {
	t.Parallel()
	c, seen := onMini(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen, event.Ends))
	ctx := context.WithValue(t.Context(), contextKey{}, "mine")
	lock := got(locker.TryLock(ctx, "released"))(t)
	require.NoError(t, lock.Unlock(ctx))
	end := waitFor[event.End](t, seen, 1)[0]
	require.ErrorIs(t, end.Err, redlock.ErrReleased)
	require.Equal(t, "mine", end.Context.Value(contextKey{}))
	require.NotZero(t, end.Call)
	take(t, locker, "expired", redlock.TTL(200*time.Millisecond)) // and nobody asks
	end = waitFor[event.End](t, seen, 2)[1]
	require.ErrorIs(t, end.Err, redlock.ErrExpired)
	require.Equal(t, "expired", end.Name)
}

func TestWithObserver_NumbersOfCallsComeWithoutTheCalls(t *testing.T) {
	t.Parallel()
	c, seen := onMini(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen, protocol.Votes, protocol.Rounds))
	unlock(t, take(t, locker, "name"))
	calls := map[event.Op]uint64{}
	for _, v := range waitFor[protocol.Round](t, seen, 2) {
		require.NotZero(t, v.Call)
		calls[v.Op] = v.Call
	}
	require.NotEqual(t, calls[event.OpAcquire], calls[event.OpUnlock])
	for _, v := range waitFor[protocol.Vote](t, seen, 4) {
		require.Equal(t, calls[v.Op], v.Call)
	}
}

// The log is told of losses whatever the observers want.
func TestWithObserver_OfOtherKindsKeepsNoLossFromTheLog(t *testing.T) {
	t.Parallel()
	for group := range groups {
		c, log := onReal(t, 3), &logBuffer{}
		lock := c.everywhere(take(t, c.logsTo(log, slog.LevelWarn, redlock.WithObserver(&recorder{}, group)), string(group)))
		c.doAll("DEL", lock.Name())
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		require.Equal(t, []string{"WARN a lock is lost " + lock.Name()}, lines(t, log, 1))
	}
}

func TestEvents_OfACallThatHasEndedAreLate(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := c.observed()
	seen.connect(t, locker, 3)
	c.processes[2].Freeze()
	lock := take(t, locker, "name")
	c.processes[2].Thaw()
	seen.waitForVotes(t, event.OpAcquire, "name", 3)

	ended := map[uint64]bool{}
	late := 0
	for _, e := range eventsOf[event.Event](seen) {
		switch e := e.(type) {
		case event.Acquire:
			ended[e.Call] = true
		case event.Unlock: // of connect
			ended[e.Call] = true
		case protocol.Vote:
			require.Equal(t, ended[e.Call], e.Late)
			if e.Late && e.Name == "name" {
				late++
			}
		case protocol.Round:
			require.False(t, e.Late)
		}
	}
	require.Equal(t, 1, late, "the node that was frozen")

	before := len(eventsOf[protocol.Round](seen))
	freeze(c.processes...)
	require.ErrorIs(t, lock.Unlock(briefly(t)), context.DeadlineExceeded)
	thaw(c.processes...)
	verdicts := waitFor[protocol.Round](t, seen, before+1)
	last := verdicts[len(verdicts)-1]
	require.Equal(t, event.OpUnlock, last.Op)
	require.True(t, last.Late, "Unlock did not wait for it")
}

func TestEvents_AVoteIsOfItsOwnRoundThoughTheNextHasBegun(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := c.observed()
	seen.connect(t, locker, 3)
	c.doFirst(2, "SET", "waited", "somebody", "PX", 60_000)
	c.processes[2].Freeze()
	before := len(eventsOf[protocol.Round](seen))
	waiter := lockBeside(t.Context(), locker, "waited")
	refused := waitFor[protocol.Round](t, seen, before+1)[before]
	c.doFirst(2, "DEL", "waited")
	held := receive(t, waiter, "the end of Lock")
	c.processes[2].Thaw()
	require.NoError(t, held.err)
	seen.waitForVotes(t, event.OpAcquire, "waited", 6)
	unlock(t, held.lock)
	for _, vote := range eventsOf[protocol.Vote](seen) {
		if vote.Name == "waited" && vote.Node == 2 {
			require.False(t, vote.At.Add(-vote.Took).After(refused.At), "it is about the first round, as the nodes answer in order")
			return
		}
	}
}

func TestEvents_NameTheCallThatAcquiredTheLock(t *testing.T) {
	t.Parallel()
	c, seen := onMini(t, 3), &recorder{}
	lockers := []*redlock.Locker{c.locker(redlock.WithObserver(seen)), c.locker(redlock.WithObserver(seen))}
	first, second := take(t, lockers[0], "first"), take(t, lockers[1], "second")
	for _, lock := range []*redlock.Lock{first, second} {
		require.NoError(t, lock.Extend(t.Context(), time.Hour))
		unlock(t, lock)
	}
	ends := waitFor[event.End](t, seen, 2)
	extends, unlocks := waitFor[event.Extend](t, seen, 2), waitFor[event.Unlock](t, seen, 2)
	calls, locks := map[uint64]bool{}, map[string]uint64{}
	for _, e := range eventsOf[event.Acquire](seen) {
		calls[e.Call], locks[e.Name] = true, e.Call
	}
	for _, e := range extends {
		calls[e.Call] = true
		require.Equal(t, locks[e.Name], e.Lock)
	}
	for _, e := range unlocks {
		calls[e.Call] = true
		require.Equal(t, locks[e.Name], e.Lock)
	}
	for _, e := range ends {
		require.Equal(t, locks[e.Name], e.Call)
	}
	require.Len(t, calls, 6, "no two calls have the same number, whichever Locker they are of")
}
