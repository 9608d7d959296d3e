package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// outages are the ways in which a node may fail and come back.
var outages = []struct {
	name        string
	begin, end  func(*testredis.Process)
	forgetsKeys bool
}{

	{"stopped", (*testredis.Process).Stop, (*testredis.Process).Start, true},
	{"frozen", (*testredis.Process).Freeze, (*testredis.Process).Thaw, false},
}

// onOutages runs a test for each kind of outage of 1, 2 ... n-1 of n servers. Short timeouts let the nodes come
// back quickly; on a busy machine they only cost repetitions.
func onOutages(t *testing.T, n, first, last int, test func(t *testing.T, c *cluster, broken int, begin, end func())) {
	for _, outage := range outages {
		for broken := first; broken <= last; broken++ {
			t.Run(fmt.Sprintf("%d of %d %s", broken, n, outage.name), func(t *testing.T) {
				c := onReal(t, n)
				test(t, c, broken,
					func() {
						for _, p := range c.processes[:broken] {
							outage.begin(p)
						}
					},
					func() {
						for _, p := range c.processes[:broken] {
							outage.end(p)
						}
					})
			})
		}
	}
}

func TestLock_IsTakenExtendedAndReleasedWhileAMinorityIsAway(t *testing.T) {
	t.Parallel()
	onOutages(t, 5, 1, 2, func(t *testing.T, c *cluster, broken int, begin, end func()) {
		// Nothing waits for the nodes that are away: a call that did would outlive the test.
		locker := lockerOver(t, c.nodes(pool.WithTimeout(long)))
		before := c.everywhere(take(t, locker, "before"))
		begin()
		during := take(t, locker, "during")
		for _, lock := range []*redlock.Lock{before, during} {
			require.NoError(t, lock.Extend(t.Context(), 2*long))
		}
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "during")), redlock.ErrTaken)
		for _, lock := range []*redlock.Lock{before, during} {
			unlock(t, lock)
		}
		end()
		c.eventuallyEmpty()
		unlock(t, take(t, locker, "after"))
	})
}

func TestQuorumError_NamesExactlyTheNodesThatAreAway(t *testing.T) {
	t.Parallel()
	onOutages(t, 5, 3, 5, func(t *testing.T, c *cluster, broken int, begin, end func()) {
		locker, seen := observed(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(50*time.Millisecond)))
		connected := seen.takeOnAll(t, locker, 5)
		begin()
		namesThem := func(err error) {
			t.Helper()
			for i, node := range c.refused(err, redlock.ErrNoQuorum, not{redlock.ErrTaken}).Nodes {
				if i < broken {
					require.Error(t, node.Err)
				} else if node.Err != nil {
					require.ErrorIs(t, node.Err, nodeerr.ErrUnneeded, "it had nothing to blame on it")
				}
			}
		}
		_, err := locker.TryLock(t.Context(), "during")
		namesThem(err)
		namesThem(connected.Extend(t.Context(), 2*long))
		require.NoError(t, connected.Err(), "it is held until its deadline")
		namesThem(connected.Unlock(t.Context()))
		end()

		// The nodes that are back are found to be so one by one.
		unlock(t, waits(t, locker, "after"))
	})
}

func TestTryLock_AfterAnOutageEveryNodeTakesPartAgain(t *testing.T) {
	t.Parallel()
	onOutages(t, 3, 1, 3, func(t *testing.T, c *cluster, _ int, begin, end func()) {
		locker, seen := observed(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(50*time.Millisecond)))
		begin()
		for range 3 {
			lock, err := locker.TryLock(t.Context(), "during")
			if err == nil {
				err = lock.Unlock(t.Context())
			}
			if err != nil {
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
			}
		}
		end()
		seen.connect(t, locker, 3)
	})
}

// The danger: a majority of the nodes that answer, instead of a majority of all.
func TestTryLock_TwoOfFiveAreNeverAMajorityThoughTheOthersAreDead(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		kill(c.servers[:3]...)
		locker := c.locker()
		for range 10 {
			_, err := locker.TryLock(t.Context(), "name")
			refusal := c.refused(err, redlock.ErrNoQuorum)
			require.Equal(t, 3, refusal.Need)
			for _, node := range refusal.Nodes[:3] {
				var down *nodeerr.ConnectError
				require.True(t, errors.As(node.Err, &down), "%v", node.Err)
			}
		}
		for i := 3; i < 5; i++ {
			eventually(t, func() bool { return c.value(i, "name") == "" }, "server %d", i)
		}
	})
}

func TestMaxOutage_LimitsTheWaitForServersAndNotForAHolder(t *testing.T) {
	t.Parallel()
	c, fake := onMini(t, 3), clocktest.New()
	locker := c.locker(redlock.WithClock(fake))
	holder := take(t, c.locker(), "taken")
	wait := func(name string, d time.Duration) <-chan held {
		return lockBeside(t.Context(), locker, name, redlock.MaxOutage(d))
	}
	end := func(waiter <-chan held) (got held) {
		turnUntil(t, fake, time.Second, func() bool {
			select {
			case got = <-waiter:
				return true
			default:
				return false
			}
		})
		return got
	}
	first, second := wait("taken", time.Minute), wait("taken", 0) // the second asks no node itself
	begun := fake.Now()
	turnUntil(t, fake, time.Second, func() bool { return fake.Now().Sub(begun) > 10*time.Minute })
	require.Empty(t, first)
	require.Empty(t, second)

	kill(c.servers[0], c.servers[1])
	for _, waiter := range []<-chan held{second, first, wait("other", 0)} {
		ended := end(waiter)
		requireIs(t, ended.err, redlock.ErrNoQuorum, not{redlock.ErrTaken})
		require.NotErrorIs(t, ended.err, context.Canceled, "no context of the caller's has ended")
		require.Equal(t, "acquire", c.refused(ended.err).Op)
	}
	require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "other", redlock.MaxOutage(0))), redlock.ErrInvalid)
	_, err := locker.Lock(t.Context(), "other", redlock.MaxOutage(-1))
	require.ErrorContains(t, err, "MaxOutage(-1ns)")

	c.servers[0].Start()
	_ = holder.Unlock(t.Context()) // server 0 has forgotten it
	got := end(wait("taken", time.Hour))
	require.NoError(t, got.err)
	unlock(t, got.lock)
}

func TestMaxOutage_AMajorityBeginsTheTimeAnew(t *testing.T) {
	t.Parallel()
	c, fake, seen := onMini(t, 3), clocktest.New(), &recorder{}
	c.doAll("SET", "name", "somebody")
	waiter := lockBeside(t.Context(), c.locker(redlock.WithClock(fake), redlock.WithObserver(seen)), "name", redlock.MaxOutage(time.Hour))
	pass := func(d time.Duration) { // and one round is made at the end of it
		// One timer more looks whether calls wait.
		eventually(t, func() bool { return fake.Pending(time.Minute) > 1 }, "Lock pauses")
		before := len(seen.verdictsOn("acquire"))
		fake.Advance(d)
		eventually(t, func() bool { return len(waiter) > 0 || len(seen.verdictsOn("acquire")) > before }, "a round")
	}
	fail := func() {
		kill(c.servers[0], c.servers[1])
		pass(time.Second)
	}
	for range 3 {
		fail()
		pass(40 * time.Minute)
		require.Empty(t, waiter)
		restart(c.servers[0], c.servers[1])
		c.doAll("SET", "name", "somebody")
		for verdicts := []protocol.Round{{}}; !errors.Is(verdicts[len(verdicts)-1].Err, redlock.ErrTaken); verdicts = seen.verdictsOn("acquire") {
			pass(time.Second) // until they are connected
		}
	}
	fail()
	pass(40 * time.Minute)
	require.Empty(t, waiter)
	pass(40 * time.Minute)
	require.ErrorIs(t, receive(t, waiter, "the end of Lock").err, redlock.ErrNoQuorum)
}

// The danger: a call of Do with a wrong password waits for ever, without a word.
func TestLock_DoesNotWaitForAnOperator(t *testing.T) {
	t.Parallel()
	for code, fault := range map[string]string{"WRONGPASS": ">another", "NOPERM": "-set"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			c := onReal(t, 3)
			c.doAll("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
			var urls []string
			for _, s := range c.servers {
				urls = append(urls, "redis://app:secret@"+s.Addr())
			}
			spoil := func(i int) {
				if code == "WRONGPASS" {
					c.do(i, "ACL", "SETUSER", "app", "resetpass")
				}
				c.do(i, "ACL", "SETUSER", "app", fault)
			}
			before := lockerOver(t, open(t, urls)) // it has had a majority
			unlock(t, take(t, before, "name"))

			spoil(0)
			require.NoError(t, take(t, lockerOver(t, open(t, urls)), "name").Unlock(t.Context()), "a minority")
			spoil(1)
			err := lockerOver(t, open(t, urls)).Do(t.Context(), "name", func(context.Context, *redlock.Lock) error { panic("not held") })
			requireIs(t, err, redlock.ErrNotRun, redlock.ErrNoQuorum)
			reason := as[*nodeerr.ServerError](t, err)
			require.Equal(t, code, reason.Code)

			if code == "NOPERM" { // a password is asked for at the next connection only
				require.ErrorIs(t, errOf(before.Lock(briefly(t), "name")), context.DeadlineExceeded, "an outage like any other")
			}
		})
	}
}

func TestLock_DoesNotWaitForABetterURL(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	guarded := onReal(t, 3, "--requirepass", "secret")
	inParallel(t, map[string]func(i int) string{
		"no password":            func(i int) string { return "redis://" + guarded.servers[i].Addr() },
		"a password for nobody":  func(i int) string { return "redis://:secret@" + c.servers[i].Addr() },
		"a Sentinel":             func(int) string { return "redis://:secret@" + testredis.Sentinel(t).Addr() + "/1" },
		"a database that is not": func(i int) string { return "redis://" + c.servers[i].Addr() + "/99" },
		"one server by two names": func(i int) string {
			return fmt.Sprintf("redis://%s:%s", []string{"127.0.0.1", "localhost"}[i], c.port(0))
		},
	}, func(t *testing.T, url func(i int) string) {
		require.ErrorIs(t, errOf(lockerOver(t, open(t, []string{url(0), url(1)})).Lock(t.Context(), "name")), redlock.ErrNoQuorum)
	})
}

// port returns the port of server i.
func (c *cluster) port(i int) string {
	_, port, err := net.SplitHostPort(c.servers[i].Addr())
	require.NoError(c.tb, err)
	return port
}

// One fault of each kind, which together leave no majority.
func TestLock_DoesNotWaitForSeveralFaultsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	c.do(0, "ACL", "SETUSER", "default", "-set")
	nodes := c.nodes()
	require.NoError(t, nodes[1].Close())
	require.ErrorIs(t, errOf(lockerOver(t, nodes).Lock(t.Context(), "name")), redlock.ErrNoQuorum)
	c.do(1, "RPUSH", "name", "data")
	_, err := c.locker().TryLock(t.Context(), "name")
	require.NotErrorIs(t, err, redlock.ErrTaken, "nobody holds it")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
}
