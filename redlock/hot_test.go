package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/redlock"
)

// visits returns who was inside so far, after having checked that it was one at a time.
func visits(tb testing.TB, judge redistest.Server) []string {
	tb.Helper()
	seen, err := redis.Strings(judge.Do("LRANGE", "visits", 0, -1))
	require.NoError(tb, err)
	var who []string
	for i := 0; i+1 < len(seen); i += 2 {
		come, goes := seen[i], seen[i+1]
		require.True(tb, come[0] == '+' && goes == "-"+come[1:], "two are inside: %v", seen[max(0, i-4):i+2])
		who = append(who, come[1:])
	}
	return who
}

// allCame waits until every process has been inside a number of times, and returns how often each was.
func allCame(tb testing.TB, judge redistest.Server, processes, times int) map[string]int {
	tb.Helper()
	var counts map[string]int
	eventually(tb, func() bool {
		counts = map[string]int{}
		for _, who := range visits(tb, judge) {
			counts[who]++
		}
		least := len(counts) == processes
		for _, n := range counts {
			least = least && n >= times
		}
		return least
	}, "everybody has been inside %d times", times)
	return counts
}

func TestOnAHotNameNobodyIsInsideWithAnotherAndNobodyStarves(t *testing.T) {
	const children, goroutines = 8, 16
	c := onReal(t, 5)
	judge := redistest.Real(t, 1)[0]
	p := plan{Who: "parent", URLs: redistest.URLs(c.servers), Judge: judge.Addr(), Goroutines: goroutines, TTL: long}
	var others []*child
	for i := range children {
		other := p
		other.Who, other.Goroutines = fmt.Sprintf("child %d", i), 2
		others = append(others, spawn(t, other))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	locker := c.locker()
	go func() { ended <- p.contend(ctx, locker) }()

	before := allCame(t, judge, 1+children, 1)
	pass(2 * time.Second)
	after := allCame(t, judge, 1+children, 1)
	cancel()
	require.NoError(t, receive(t, ended, "the end"))
	for _, other := range others {
		other.end()
	}
	total, least := 0, 1<<30
	shares := map[string]int{}
	for who, n := range after {
		shares[who] = n - before[who]
		total += shares[who]
		least = min(least, shares[who])
	}
	t.Logf("shares: %v", shares)
	require.Greater(t, total, 100)
	require.Greater(t, least, total/(1+children)/5, "a fifth of the fair share: %v", shares)
	require.NotEmpty(t, visits(t, judge), "and nobody was inside with another until the end")
	c.eventuallyEmpty()
}

// Trap 15: the waiter outlasts the TTL of a holder whose process is gone.
func TestTheLockOfAProcessThatWasKilledGoesToTheNextAfterItsTTL(t *testing.T) {
	c := onReal(t, 5)
	const ttl = 2 * time.Second
	holder := spawn(t, plan{Who: "holder", URLs: redistest.URLs(c.servers), Hold: true, TTL: ttl})
	token, err := holder.out.ReadString('\n')
	require.NoError(t, err)
	token = strings.TrimSpace(token)
	c.eventuallyHeld("name", token)
	_, waiter := c.asleep("name", noPolls)
	eventually(t, func() bool { // it is renewed
		return c.ttl(0, "name") < ttl*3/4
	}, "the TTL goes down")
	eventually(t, func() bool { return c.ttl(0, "name") > ttl*9/10 }, "and up")
	require.NoError(t, holder.cmd.Process.Kill())
	<-holder.done
	died := time.Now()
	require.Empty(t, waiter)
	lock := won(t, waiter)
	took := time.Since(died)
	t.Logf("%v after the holder's death", took)
	require.Less(t, took, ttl+10*time.Second, "of an hour that nothing else would have ended")
	require.LessOrEqual(t, c.holding("name", token), 2, "a minority may have been renewed last, and hold it for a moment longer")
	require.NoError(t, lock.Unlock(t.Context()))
	c.eventuallyEmpty()
}

// A process that waits is killed at its turn: what it took goes with its TTL, and nobody else is stuck.
func TestProcessesThatAreKilledWhileTheyContendDoNotStopTheOthers(t *testing.T) {
	c := onReal(t, 3)
	judge := redistest.Real(t, 1)[0]
	p := plan{Who: "parent", URLs: redistest.URLs(c.servers), Judge: judge.Addr(), Goroutines: 2, TTL: time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	locker := lockerOver(t, c.nodes(), redlock.WithTTL(long))
	go func() { ended <- p.contend(ctx, locker) }()
	for i := range 4 {
		victim := p
		victim.Who = fmt.Sprintf("victim %d", i)
		other := spawn(t, victim)
		came := func(who string) (n int) {
			seen, err := redis.Strings(judge.Do("LRANGE", "visits", 0, -1))
			require.NoError(t, err)
			for _, v := range seen {
				if v == "+"+who {
					n++
				}
			}
			return n
		}
		eventually(t, func() bool { return came(victim.Who) > 10 }, "it is at work")
		require.NoError(t, other.cmd.Process.Kill())
		<-other.done
		before := came("parent")
		eventually(t, func() bool { return came("parent") > before+10 }, "the others go on")
	}
	cancel()
	require.NoError(t, receive(t, ended, "the end"))
}
