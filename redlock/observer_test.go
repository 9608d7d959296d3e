package redlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
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
		require.NoError(t, lock.Unlock(t.Context()))
		seen.waitForVotes(t, "unlock", "name", 5)

		for _, op := range []struct {
			name     event.Op
			validity time.Duration
			command  string // scripts go by their source at first
		}{{"acquire", 9 * time.Minute, "SET"}, {"extend", 19 * time.Minute, "EVAL"}, {"unlock", 0, "EVAL"}} {
			eventually(t, func() bool { return len(seen.verdictsOn(op.name)) > 0 }, "the verdict")
			require.Equal(t, []event.Round{{Op: op.name, Name: "name", Validity: op.validity}}, seen.verdictsOn(op.name))
			votes := seen.votesOn(op.name, "")
			for i, vote := range votes[:4] {
				require.Equal(t, event.Vote{
					Op: op.name, Name: "name", Node: i, Addr: c.servers[i].Addr(), Answer: event.AnswerYes, Command: op.command,
				}, vote)
			}
			require.Equal(t, event.AnswerNo, votes[4].Answer)
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
	require.Equal(t, []event.Round{{Op: "acquire", Name: "name", Took: time.Second, Validity: 9 * time.Second}}, seen.verdictsOn("acquire"))
	longest := time.Duration(0)
	for _, vote := range seen.votesOn("acquire", "name") {
		longest = max(longest, vote.Took)
	}
	require.Equal(t, time.Second, longest)
	require.NoError(t, lock.Unlock(t.Context()))
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
	require.Equal(t, event.AnswerYes, seen.votesOn("acquire", "held")[2].Answer, "it came after the verdict")
	seen.waitForVotes(t, "acquire", "refused", 3)
	verdicts := seen.verdictsOn("acquire")
	require.Equal(t, err, verdicts[len(verdicts)-1].Err, "the error of the caller")
	require.Zero(t, verdicts[len(verdicts)-1].Validity)
	require.Empty(t, seen.votesOn("unlock", "refused"), "the rollback is no operation of the caller")
	require.NoError(t, lock.Unlock(t.Context()))
}
