package redlock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestQuorumError_HasThePrefixOnceAndSaysIfNoNodeWasAsked(t *testing.T) {
	t.Parallel()
	cause := errors.New("redlock: something")
	e := &redlock.QuorumError{Op: "acquire", Name: "name", Need: 1, Reason: redlock.ErrTaken, Nodes: []redlock.NodeError{{Addr: "a", Err: nodeerr.ErrQueued}}}
	require.EqualError(t, e, `redlock: acquire "name": lock is taken: other calls hold it, or are ahead`)
	e.Nodes = append(e.Nodes, redlock.NodeError{Addr: "b", Err: cause}, redlock.NodeError{Addr: "c", Err: nodeerr.ErrUnneeded})
	const head, a, b, c = `redlock: acquire "name": lock is taken: 0 of 3 nodes said yes, 1 needed`,
		"a: not asked: other calls are ahead", "b: something", "c: not needed: the other nodes decided first"
	require.EqualError(t, e, head+": "+a+"; "+b+"; "+c)
	require.Equal(t, e.Error(), fmt.Sprintf("%v", e))
	require.Equal(t, fmt.Sprintf("%q", e.Error()), fmt.Sprintf("%q", e))
	require.Equal(t, head+"\n\t"+a+"\n\t"+b+"\n\t"+c, fmt.Sprintf("%+v", e))
}

// The danger: a refusal of a real server that reaches the caller without its reason, or costs more than that node's vote.
func TestQuorumError_HasTheReasonOfEachServer(t *testing.T) {
	t.Parallel()
	for _, refusal := range []struct {
		code, hint string
		commands   [][]any // that bring it about
	}{
		{"READONLY", "a replica", [][]any{{"REPLICAOF", "127.0.0.1", "1"}}},
		{"OOM", "out of memory", [][]any{{"CONFIG", "SET", "maxmemory", "1"}}},
		{"NOREPLICAS", "too few replicas", [][]any{{"CONFIG", "SET", "min-replicas-to-write", "1"}}},
		{"NOPERM", "the ACL user may not", [][]any{{"ACL", "SETUSER", "default", "-set"}}},
		{"MISCONF", "cannot save to disk", [][]any{{"CONFIG", "SET", "save", "3600 1"}, {"BGSAVE"}}},
	} {
		t.Run(refusal.code, func(t *testing.T) {
			c := onReal(t, 3)
			c.named.Store("probe", true)
			refuse := func(p *testredis.Process) {
				if refusal.code == "MISCONF" { // a folder is in the place of the file
					require.NoError(t, os.Mkdir(filepath.Join(p.Dir(), "dump.rdb"), 0o700))
				}
				for _, command := range refusal.commands {
					require.NoError(t, errOf(p.Do(command[0].(string), command[1:]...)), command)
				}
				eventually(t, func() bool {
					_, err := p.Do("SET", "probe", "")
					return err != nil && strings.HasPrefix(err.Error(), refusal.code)
				}, "%s refuses", p.Addr())
			}
			locker := c.locker()
			refuse(c.processes[0])
			lock := take(t, locker, "minority")
			unlock(t, lock)

			refuse(c.processes[1])
			_, err := locker.TryLock(t.Context(), "name")
			for _, node := range c.refused(err, redlock.ErrNoQuorum).Nodes[:2] {
				reason := as[*nodeerr.ServerError](t, node.Err)
				require.Equal(t, refusal.code, reason.Code)
				require.ErrorContains(t, node.Err, refusal.hint)
			}
			require.ErrorContains(t, err, refusal.code)

			// The danger: a program that reports that it is ready, and cannot take a lock.
			err = locker.Ping(t.Context())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			reason := as[*nodeerr.ServerError](t, err)
			require.Equal(t, refusal.code, reason.Code)
		})
	}
}

// The same for what is hard to bring about on a real server.
func TestQuorumError_HasTheReasonOfAServerThatIsNotReady(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		"LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"CLUSTERDOWN Hash slot not served",
	} {
		code, _, _ := strings.Cut(message, " ")
		t.Run(code, func(t *testing.T) {
			servers := make([]*miniredis.Miniredis, 3)
			urls := make([]string, 3)
			for i := range servers {
				servers[i] = miniredis.RunT(t)
				urls[i] = "redis://" + servers[i].Addr()
			}
			locker, seen := observed(t, open(t, urls))
			seen.connect(t, locker, 3)
			servers[0].SetError(message)
			servers[2].SetError(message)
			_, err := locker.TryLock(t.Context(), "name")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			refusal := as[*redlock.QuorumError](t, err)
			for _, i := range []int{0, 2} {
				reason := as[*nodeerr.ServerError](t, refusal.Nodes[i].Err)
				require.Equal(t, code, reason.Code)
			}
			require.ErrorContains(t, err, code)

			servers[0].SetError("")
			unlock(t, waits(t, locker, "name"))
		})
	}
}

// The danger: a server that a script blocks.
func TestQuorumError_NamesAServerThatAScriptBlocks(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1, "--lua-time-limit", "1").mayLeave() // an Unlock may be refused
	locker := c.locker()
	unlock(t, take(t, locker, "name"))
	ended := beside(func() error { return errOf(c.servers[0].Do("EVAL", "while true do end", 0)) })
	eventually(t, func() bool {
		lock, err := locker.TryLock(t.Context(), rand.Text())
		if err == nil {
			err = lock.Unlock(t.Context())
		}
		if err == nil {
			return false
		}
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "BUSY")
		require.ErrorContains(t, err, "a script blocks the server")
		return true
	}, "the script blocks the server")
	c.do(0, "SCRIPT", "KILL")
	require.Error(t, receive(t, ended, "the end of the script"))
	unlock(t, waits(t, locker, "name"))
}

func TestQuorumError_NamesAMissingOrWrongPassword(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1, "--requirepass", "secret")
	for code, url := range map[string]string{
		"NOAUTH":    c.servers[0].URL(),
		"WRONGPASS": "redis://:wrong@" + c.servers[0].Addr(),
	} {
		_, err := lockerOver(t, open(t, []string{url})).TryLock(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		reason := as[*nodeerr.ServerError](t, c.refused(err).Nodes[0].Err)
		require.Equal(t, code, reason.Code)
		require.NotContains(t, err.Error(), "wrong@")
	}
	locker := lockerOver(t, open(t, []string{"redis://:secret@" + c.servers[0].Addr()}))
	take(t, locker, "name")
}

// The danger: a call that was too short for the servers reads like an outage of all of them.
func TestQuorumError_TellsACallThatEndedFromServersThatFail(t *testing.T) {
	t.Parallel()
	c, log, seen := onReal(t, 3), &logBuffer{}, &recorder{}
	locker := c.logsTo(log, slog.LevelWarn, redlock.WithObserver(seen))
	freeze(c.processes...)
	var refused [2]*redlock.QuorumError
	refused[0] = c.refused(errOf(locker.Lock(t.Context(), "name", redlock.MaxWait(time.Millisecond))), redlock.ErrNoQuorum, not{context.DeadlineExceeded})
	refused[1] = c.refused(errOf(locker.TryLock(within(t, time.Millisecond), "name")), redlock.ErrNoQuorum, context.DeadlineExceeded)
	for _, refusal := range refused {
		require.ErrorIs(t, refusal.Reason, nodeerr.ErrUnanswered)
		require.ErrorContains(t, refusal, `"name": no quorum of nodes: the call ended before enough nodes had answered: 0 of 3 nodes said yes, 2 needed: `)
		for _, node := range refusal.Nodes {
			require.ErrorIs(t, node.Err, nodeerr.ErrUnanswered)
			require.NotErrorIs(t, node.Err, nodeerr.ErrUnneeded)
		}
	}
	require.NoError(t, locker.Close())
	require.Len(t, seen.verdictsOn("acquire"), 2)
	for _, round := range seen.verdictsOn("acquire") {
		require.ErrorIs(t, as[*redlock.QuorumError](t, round.Err).Reason, nodeerr.ErrUnanswered)
	}
	require.NotContains(t, log.String(), "too few nodes grant locks")

	thaw(c.processes...)
	kill(c.servers[0], c.servers[1])
	locker = c.locker()
	var faults *redlock.QuorumError
	eventually(t, func() bool {
		faults = c.refused(errOf(locker.Lock(within(t, brief), "name")), redlock.ErrNoQuorum, context.DeadlineExceeded)
		return errors.Is(faults.Nodes[0].Err, syscall.ECONNREFUSED) && errors.Is(faults.Nodes[1].Err, syscall.ECONNREFUSED)
	}, "two servers are known to be down")
	require.NotErrorIs(t, faults.Reason, nodeerr.ErrUnanswered, "the faults are the reason, whatever the third does")
	c.leaves = true
}

// The danger: errors that name a node by its index in a shuffled list, or not at all.
func TestQuorumError_NamesNodesInTheirOrder(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		kill(c.servers[1], c.servers[2], c.servers[4])
		named := c.nodes(pool.WithName(func(i int) string { return fmt.Sprintf("rack-%d", i) }))
		for range 10 {
			_, err := c.locker().TryLock(t.Context(), rand.Text())
			for i, node := range c.refused(err).Nodes {
				if i == 0 || i == 3 {
					if node.Err != nil {
						require.ErrorIs(t, node.Err, nodeerr.ErrUnneeded)
					}
					continue
				}
				require.ErrorIs(t, node.Err, syscall.ECONNREFUSED)
				require.ErrorContains(t, node.Err, c.servers[i].Addr(), "the address that was dialled")
				require.ErrorContains(t, err, c.servers[i].Addr()+": not connected: ")
			}

			_, err = lockerOver(t, named).TryLock(t.Context(), rand.Text())
			refusal := as[*redlock.QuorumError](t, err)
			for i, node := range refusal.Nodes {
				require.Equal(t, fmt.Sprintf("rack-%d", i), node.Addr)
			}
			require.ErrorContains(t, err, "; rack-4: not connected: ")
		}
	})
}

// The danger: errors that errors.As cannot reach.
func TestQuorumError_NoReasonIsOutOfReachOfErrorsAs(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	c.processes[1].Stop()
	c.do(0, "CONFIG", "SET", "min-replicas-to-write", 1)
	_, err := c.locker().Lock(briefly(t), "name")

	requireIs(t, err, redlock.ErrNoQuorum, context.DeadlineExceeded)
	_ = as[*redlock.QuorumError](t, err)
	node := as[*redlock.NodeError](t, err)
	require.Equal(t, c.servers[0].Addr(), node.Addr, "the first that did not say yes")
	server := as[*nodeerr.ServerError](t, err)
	require.Equal(t, "NOREPLICAS", server.Code)
	_ = as[*nodeerr.ConnectError](t, err)
	_ = as[net.Error](t, err)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// The danger: a caller that takes a node's timeout for the end of its own context.
func TestQuorumError_MatchesTheErrorOfAContextOnlyIfTheCallersHasEnded(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	late := map[string]bool{c.servers[1].Addr(): true, c.servers[2].Addr(): true}
	var down atomic.Bool
	locker := lockerOver(t, c.nodes(pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if down.Load() && late[address] {
			return nil, &net.OpError{Op: "dial", Net: network, Err: context.DeadlineExceeded}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	})), redlock.WithBackoff(time.Millisecond, time.Millisecond))
	lock := c.everywhere(take(t, locker, "held"))
	down.Store(true)
	kill(c.servers[1:]...)
	calls := map[string]func(ctx context.Context) error{
		"TryLock": func(ctx context.Context) error { _, err := locker.TryLock(ctx, "name"); return err },
		"TryDo": func(ctx context.Context) error {
			return locker.TryDo(ctx, "name", func(context.Context, *redlock.Lock) error { return nil })
		},
		"Extend":      func(ctx context.Context) error { return lock.Extend(ctx, 2*long) },
		"Inspect":     func(ctx context.Context) error { _, err := locker.Inspect(ctx, "held"); return err },
		"Attach":      func(ctx context.Context) error { _, err := locker.Attach(ctx, "held", lock.Token()); return err },
		"ForceUnlock": func(ctx context.Context) error { _, err := locker.ForceUnlock(ctx, "other"); return err },
		"Unlock":      func(ctx context.Context) error { return lock.Unlock(ctx) },
	}
	eventually(t, func() bool { return errors.As(calls["TryLock"](t.Context()), new(*nodeerr.ConnectError)) }, "a dial has failed")
	for _, name := range []string{"TryLock", "TryDo", "Extend", "Inspect", "Attach", "ForceUnlock", "Unlock"} {
		err := calls[name](t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum, name)
		require.ErrorAs(t, err, new(*nodeerr.ConnectError), name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, name)
		require.NotErrorIs(t, err, context.Canceled, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiter := lockBeside(ctx, locker, "name")
	eventually(t, func() bool { return redlock.Waiting(locker, "name") == 1 }, "it waits")
	cancel()
	err := receive(t, waiter, "the end of Lock").err
	require.ErrorIs(t, err, context.Canceled, "which is the caller's")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

// The danger: two locks are held, and an error does not say of which it is.
func TestLockError_EveryErrorAboutALockNamesIt(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake := clocktest.New()
		locker, other := c.locker(redlock.WithClock(fake)), c.locker()
		holder, brief := c.everywhere(take(t, other, "taken")), take(t, locker, "brief", redlock.TTL(time.Minute))
		held := take(t, locker, "held")
		fake.Advance(time.Minute)
		ctx := contextOf(t, held)
		long := strings.Repeat("x", 600)
		for name, errs := range map[string][]error{
			"taken": {errOf(locker.TryLock(t.Context(), "taken")), errOf(locker.Lock(t.Context(), "taken", redlock.MaxWait(1)))},
			"brief": {brief.Err(), brief.Extend(t.Context(), time.Second), errOf(brief.Detach(t.Context()))},
			"held":  {held.Extend(t.Context(), 0), held.Extend(over(t), time.Minute), errOf(locker.TryLock(ctx, "held")), errOf(locker.Attach(t.Context(), "held", "token"))},
			long:    {errOf(locker.TryLock(t.Context(), long)), errOf(locker.Inspect(t.Context(), long)), errOf(locker.ForceUnlock(t.Context(), long))},
		} {
			for i, err := range errs {
				var about *redlock.LockError
				require.ErrorAs(t, err, &about, "%d: %v", i, err)
				require.Equal(t, name, about.Name)
				require.Less(t, len(err.Error()), 500)
			}
		}
		require.Same(t, brief.Err(), brief.Err())
		require.ErrorIs(t, brief.Err(), redlock.ErrNotHeld, "one comparison is enough for those who do not care")
		require.NotErrorIs(t, brief.Err(), redlock.ErrGone)
		require.NotErrorIs(t, redlock.ErrNotHeld, redlock.ErrExpired)

		unlock(t, held)
		receive(t, ctx.Done(), "the end of the context")
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrReleased)
		require.Same(t, held.Err(), context.Cause(ctx))
		unlock(t, holder)
		require.NoError(t, locker.Close())
		for _, err := range []error{errOf(locker.Lock(t.Context(), "held")), errOf(locker.Inspect(t.Context(), "held")), held.Extend(t.Context(), time.Second)} {
			require.ErrorIs(t, err, redlock.ErrClosed)
			require.ErrorAs(t, err, new(*redlock.LockError))
		}
	})
}

// The danger: work for B stops, or goes on, because of what has become of A.
func TestLockError_TheEndOfAnotherLockIsNotThatOfThisOne(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		err := locker.Do(t.Context(), "A", func(ctx context.Context, a *redlock.Lock) error {
			b := take(t, locker, "B")
			unlock(t, a)
			receive(t, ctx.Done(), "the end of A")
			for _, err := range []error{b.Extend(ctx, time.Minute), errOf(locker.Lock(ctx, "C"))} {
				requireIs(t, err, context.Canceled, not{redlock.ErrNotHeld})
				require.ErrorContains(t, err, `("A": lock is released)`)
			}
			require.NoError(t, b.Err())
			return errors.Join(b.Unlock(ctx), a.Extend(t.Context(), 0))
		})
		require.ErrorIs(t, err, redlock.ErrInvalid)

		err = locker.Do(t.Context(), "outer", func(ctx context.Context, outer *redlock.Lock) error {
			c.doAll("DEL", "outer")
			require.ErrorIs(t, outer.Extend(ctx, 2*long), redlock.ErrGone)
			return errors.Join(outer.Extend(ctx, 0), &redlock.LockError{Name: "inner", Err: redlock.ErrGone})
		})
		require.ErrorContains(t, err, `do "outer": lock is gone`)
		require.NoError(t, locker.Close())
	})
}

// The danger: a line of the log that is many.
func TestQuorumError_IsOneLineOfTheLog(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	take(t, c.locker(), "name")
	locker, out := c.locker(), &strings.Builder{}
	log := slog.New(slog.NewTextHandler(out, nil))
	over := within(t, time.Millisecond)
	for i, err := range []error{
		errOf(locker.TryLock(t.Context(), "name")), errOf(locker.Lock(over, "name")),
		locker.TryDo(t.Context(), "name", func(context.Context, *redlock.Lock) error { return nil }),
	} {
		log.Error("failed", "error", err)
		require.NotContains(t, out.String(), `\n`)
		require.Equal(t, i+1, strings.Count(out.String(), "\n"))
	}
}
