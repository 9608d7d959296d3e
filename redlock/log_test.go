package redlock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
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
)

// records parses what a JSON handler wrote.
func records(t *testing.T, log *logBuffer) []map[string]any {
	t.Helper()
	log.mu.Lock()
	defer log.mu.Unlock()
	var all []map[string]any
	for line := range bytes.Lines(log.text.Bytes()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal(line, &record))
		all = append(all, record)
	}
	return all
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// logsTo makes a Locker that logs from a level on.
func (c *cluster) logsTo(log *logBuffer, level slog.Level, opts ...redlock.Option) *redlock.Locker {
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: level}))
	return c.locker(append(opts, redlock.WithLogger(logger))...)
}

// lines returns level, message and lock or node of each line once there are n.
func lines(t *testing.T, log *logBuffer, n int) (all []string) {
	t.Helper()
	eventually(t, func() bool { return strings.Count(log.String(), "\n") >= n }, "%d lines", n)
	for _, r := range records(t, log) {
		about, _ := r["name"].(string)
		if node, ok := r["node"].(string); ok {
			about = node
		}
		message, _ := strings.CutPrefix(r["msg"].(string), "redlock: ")
		all = append(all, r["level"].(string)+" "+message+" "+about)
	}
	return all
}

func TestLogger_LogsOneLineForEachLossAndNoToken(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelError} {
			log, source := &logBuffer{}, &tokens{}
			locker := c.logsTo(log, level, redlock.TokenSource(source.next))
			lock := c.everywhere(take(t, locker, "name"))
			require.NoError(t, lock.Extend(t.Context(), 2*long))
			require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
			c.doAll("DEL", "name")
			require.ErrorIs(t, lock.Extend(t.Context(), 3*long), redlock.ErrGone)
			require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
			require.NoError(t, locker.Close())

			var want []string
			if level <= slog.LevelDebug {
				want = append(want, "DEBUG refused name")
			}
			if level <= slog.LevelWarn {
				want = append(want, "WARN a lock is lost name")
			}
			if level <= slog.LevelDebug {
				want = append(want, "DEBUG refused name", "DEBUG refused name")
			}
			require.ElementsMatch(t, want, lines(t, log, len(want)))
			for _, r := range records(t, log) {
				if r["msg"] == "redlock: refused" {
					require.Contains(t, r["error"], c.servers[0].Addr())
					require.Contains(t, r, "took")
				}
			}
			for _, token := range source.all() {
				require.NotContains(t, log.String(), token)
			}
			c.eventuallyEmpty()
		}
	})
}

// Three of five nodes are frozen under many names: each cause has one line.
func TestLogger_AnOutageHasOneLineAndOneForItsEnd(t *testing.T) {
	t.Parallel()
	c, log, seen, fake := onReal(t, 5), &logBuffer{}, &recorder{}, clocktest.New()
	locker := lockerOver(t, c.nodes(pool.WithTimeout(300*time.Millisecond)), redlock.WithClock(fake), redlock.WithObserver(seen, event.Nodes),
		redlock.WithLogger(slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	const names = 40
	var over []<-chan struct{}
	for i := range names {
		lock := take(t, locker, fmt.Sprint("held-", i), redlock.RenewFor(redlock.NoLimit), redlock.TTL(time.Minute))
		over = append(over, lock.Done())
	}
	freeze(c.processes[:3]...)
	ctx, cancel := context.WithCancel(t.Context())
	var waiters []<-chan held
	for i := range names {
		waiters = append(waiters, lockBeside(ctx, locker, fmt.Sprint("wanted-", i)))
	}
	waitFor[event.NodeDown](t, seen, 3)
	for _, lost := range over {
		turnUntil(t, fake, time.Second, func() bool { return isOver(lost) })
	}
	for range 5 {
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrNoQuorum)
		fake.Advance(time.Minute)
	}
	locker.Drain()
	thaw(c.processes[:3]...)
	eventually(t, func() bool { return strings.Contains(log.String(), "quorum of nodes again") }, "the end")
	cancel()
	for _, w := range waiters {
		receive(t, w, "the end")
	}
	all := records(t, log)
	require.Len(t, all, 2, "%v", all)
	require.Equal(t, "redlock: no quorum of nodes: no lock is granted", all[0]["msg"])
	for i, server := range c.servers {
		if addr, out := server.Addr(), all[0]["out"].(string); i < 3 {
			require.Contains(t, out, addr+": ")
		} else {
			require.NotContains(t, out, addr)
		}
	}
	require.InDelta(t, names, all[1]["lost"], 0)
	require.Positive(t, all[1]["waiting"])
	require.Positive(t, all[1]["after"])
	require.NotContains(t, log.String(), "->")
}

// The danger: a program that sets nothing, and waits in silence.
func TestLogger_ByDefaultAProgramSaysOnItsStandardErrorThatNoLockIsGranted(t *testing.T) {
	t.Parallel()
	c, stderr := onReal(t, 3).mayLeave(), &logBuffer{}
	program := spawnTo(t, plan{Who: "program", URLs: testredis.URLs(c.servers), Judge: c.servers[0].Addr(), Hold: true, TTL: time.Minute}, stderr)
	require.NotEmpty(t, must(program.out.ReadString('\n'))(t))
	kill(c.processes[1:]...)
	eventually(t, func() bool { return strings.Contains(stderr.String(), "\n") }, "a line")
	require.Regexp(t, `^[0-9/]+ [0-9:]+ WARN redlock: no quorum of nodes: no lock is granted need=2 of=3 out=".*"\n$`, stderr.String())
	for _, server := range c.servers[1:] {
		require.Contains(t, stderr.String(), server.Addr()+": ")
	}
}

// Nobody asks the lock, and no call returns an error.
func TestLogger_LogsARenewedLockThatExpires(t *testing.T) {
	t.Parallel()
	c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
	locker := c.logsTo(log, slog.LevelWarn, redlock.WithClock(fake))
	take(t, locker, "name", redlock.RenewFor(redlock.NoLimit), redlock.TTL(time.Minute))
	c.doFirst(2, "ACL", "SETUSER", "default", "-pexpire") // the nodes answer, so that this is no outage
	turnUntil(t, fake, time.Second, func() bool { return strings.Contains(log.String(), "is lost") })
	require.Contains(t, log.String(), redlock.ErrExpired.Error())
}

func TestLogger_LogsANodeOnceWhenItGoesDownAndOnceWhenItIsUpAgain(t *testing.T) {
	t.Parallel()
	c, log := onReal(t, 3), &logBuffer{}
	locker := c.logsTo(log, slog.LevelInfo)
	c.everywhere(take(t, locker, "name"))
	addr := c.servers[2].Addr()
	c.processes[2].Stop()
	require.Equal(t, []string{"WARN a node is down " + addr}, lines(t, log, 1))
	for range 5 { // attempts to connect fail meanwhile
		pass(50 * time.Millisecond)
		unlock(t, take(t, locker, "other"))
	}
	c.processes[2].Start()
	require.Equal(t, []string{"WARN a node is down " + addr, "INFO a node is up again " + addr}, lines(t, log, 2))
}

func TestLogger_LogsAQuarantine(t *testing.T) {
	t.Parallel()
	c, log := onReal(t, 3), &logBuffer{}
	nodes := c.nodes(pool.WithRestartGuard(time.Hour))
	locker := lockerOver(t, nodes, redlock.TTL(time.Minute), redlock.WithLogger(slog.New(slog.NewJSONHandler(log, nil))))
	require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), nodeerr.ErrQuarantined)
	require.Equal(t, []string{"WARN no quorum of nodes: no lock is granted "}, lines(t, log, 1))
	for _, server := range c.servers {
		require.Contains(t, records(t, log)[0]["out"], server.Addr()+": quarantined for ")
	}
}

// A right that is missing, and then given.
func TestLogger_LogsAQuarantineWithoutAnEnd(t *testing.T) {
	t.Parallel()
	c, log := onReal(t, 1), &logBuffer{}
	c.inUse(time.Hour)
	c.do(0, "ACL", "SETUSER", "locker", "on", ">secret", "+@all", "&*", "~name")
	addr := c.servers[0].Addr()
	nodes := open(t, []string{"redis://locker:secret@" + addr}, pool.WithRestartGuard(time.Minute))
	locker := lockerOver(t, nodes, redlock.TTL(time.Minute), redlock.WithLogger(slog.New(slog.NewJSONHandler(log, nil))))
	err := errOf(locker.TryLock(t.Context(), "name"))
	require.ErrorIs(t, err, nodeerr.ErrQuarantined)
	require.Equal(t, "NOPERM", as[*nodeerr.ServerError](t, err).Code)
	require.ErrorContains(t, err, "it is not known since when it has been this node: ")
	require.Equal(t, []string{"WARN no quorum of nodes: no lock is granted "}, lines(t, log, 1))
	c.do(0, "ACL", "SETUSER", "locker", "~quorumlock:*")
	eventually(t, func() bool { _, err = locker.TryLock(t.Context(), "name"); return err == nil }, "the stamp is sent again")
	require.ElementsMatch(t, []string{"WARN a quorum of nodes again ", "INFO a node votes again " + addr}, lines(t, log, 3)[1:])
	c.do(0, "DEL", "name")
}

// blockedHandler is a log that hangs.
type blockedHandler struct {
	slog.Handler
	goOn chan struct{}
}

func (h blockedHandler) Write(p []byte) (int, error) {
	<-h.goOn
	return len(p), nil
}

func TestLogger_ThatHangsHoldsUpNoCall(t *testing.T) {
	t.Parallel()
	c, hangs := onMini(t, 3), blockedHandler{goOn: make(chan struct{})}
	locker := c.locker(redlock.WithLogger(slog.New(slog.NewTextHandler(hangs, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	defer close(hangs.goOn)
	take(t, locker, "name")
	for range 10 {
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
	}
}

// The danger: the handler is asked under the mutex of the lock, so that the call and the node hang.
func TestWithLogger_TheHandlerMayAskTheLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		var held atomic.Pointer[redlock.Lock]
		var asked atomic.Int32
		lock := take(t, c.locker(redlock.WithLogger(slog.New(handler{slog.DiscardHandler, func() {
			if lock := held.Load(); lock != nil {
				asked.Add(1)
				_ = lock.Err()
			}
		}}))), "name")
		c.eventuallyHeld(lock.Name(), lock.Token())
		held.Store(lock)
		c.doFirst(2, "DEL", lock.Name())
		ended := beside(func() error { return lock.Extend(t.Context(), long) })
		require.ErrorIs(t, receive(t, ended, "the end of Extend"), redlock.ErrGone)
		require.Positive(t, asked.Load())
	})
}

// The danger: a handler that answers "busy, try later" for ever, and nothing says why.
func TestTryLock_LogsWhatBlocksTheNameOnceAMinute(t *testing.T) {
	t.Parallel()
	for what, put := range map[string]struct {
		command []any
		line    string
	}{
		"a list":                {[]any{"RPUSH", "app:name", "secret"}, "WARN data of another program is in the way of a lock name"},
		"a long string":         {[]any{"SET", "app:name", strings.Repeat("secret", 200)}, "WARN data of another program is in the way of a lock name"},
		"a key without a TTL":   {[]any{"SET", "app:name", "secret"}, "WARN a key without a TTL is in the way of a lock name"},
		"an empty key for ever": {[]any{"SET", "app:name", ""}, "WARN a key without a TTL is in the way of a lock name"},
	} {
		for name, opts := range map[string][]redlock.Option{"": nil, ", fenced": {redlock.WithFencing()}} {
			t.Run(what+name, func(t *testing.T) {
				t.Parallel()
				c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
				c.doAll(put.command[0].(string), put.command[1:]...)
				locker := c.logsTo(log, slog.LevelInfo, append(opts, prefixed, redlock.WithClock(fake))...)
				for minute := range 3 {
					for range 5 {
						_, err := locker.TryLock(t.Context(), "name")
						require.True(t, errors.Is(err, redlock.ErrTaken) != errors.Is(err, redlock.ErrForeign), "%v", err)
						fake.Advance(11 * time.Second)
					}
					require.Equal(t, put.line, lines(t, log, minute+1)[minute])
					fake.Advance(5 * time.Second)
				}
				require.NoError(t, locker.Close())
				require.Len(t, records(t, log), 3)
				for _, r := range records(t, log) {
					require.Contains(t, r["error"], c.servers[0].Addr())
				}
				require.NotContains(t, log.String(), "secret")
			})
		}
	}
}

// A program whose calls wait for a moment only has no line about a long wait.
func TestTryLock_LogsOnceAMinuteThatTooFewNodesGrantLocks(t *testing.T) {
	t.Parallel()
	c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
	locker := c.logsTo(log, slog.LevelWarn, redlock.WithClock(fake))
	unlock(t, take(t, locker, "name"))
	c.doFirst(2, "CONFIG", "SET", "min-replicas-to-write", 1)
	for minute := range 2 {
		for i := range 5 {
			require.ErrorIs(t, errOf(locker.TryLock(t.Context(), fmt.Sprint("name-", i))), redlock.ErrNoQuorum)
		}
		locker.Drain()
		fake.Advance(journal.Hold)
		require.Equal(t, "WARN too few nodes grant locks name-0", lines(t, log, minute+1)[minute])
		fake.Advance(time.Minute)
	}
	require.NoError(t, locker.Close())
	require.Len(t, records(t, log), 2)
}

func TestTryLock_LogsNothingIfTheOtherNodesAreEnough(t *testing.T) {
	t.Parallel()
	c, log := onReal(t, 5), &logBuffer{}
	c.do(0, "RPUSH", "app:name", "data")
	c.do(1, "SET", "app:name", "somebody")
	locker := c.logsTo(log, slog.LevelWarn, prefixed)
	lock := take(t, locker, "name")
	_, err := c.logsTo(log, slog.LevelWarn, prefixed).TryLock(t.Context(), "name")
	requireIs(t, c.refused(err, redlock.ErrTaken).Reason, not{redlock.ErrForeign}) // the holder will unlock
	require.EqualValues(t, 1, c.do(0, "LLEN", "app:name"))
	unlock(t, lock)
	c.do(2, "SET", "app:name", "somebody else") // together they are in the way of a majority
	require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
	require.Equal(t, []string{"WARN a key without a TTL is in the way of a lock name"}, lines(t, log, 1))
}

// A wait that began before the data came ends, and Lock does not even ask the nodes in a round of its own if they announce the data.
func TestLock_EndsAndLogsItWhenSomebodysDataTakesThePlaceOfAHolder(t *testing.T) {
	t.Parallel()
	c, log := onReal(t, 3), &logBuffer{}
	c.foreign("app:name", long)
	logger := redlock.WithLogger(slog.New(slog.NewJSONHandler(log, nil)))
	locker, waiter := c.asleep("name", prefixed, noPolls, logger)
	second := lockBeside(t.Context(), locker, "name")
	c.settled()
	c.put(2, "a string of 1025 bytes")
	for _, h := range []<-chan held{waiter, second} {
		require.ErrorIs(t, receive(t, h, "the end of Lock").err, redlock.ErrForeign)
	}
	require.NoError(t, locker.Close())
	require.Equal(t, []string{"WARN data of another program is in the way of a lock name"}, lines(t, log, 1))
}

// A program that makes up names must neither fill the memory nor the log.
func TestTryLock_RemembersABoundedNumberOfBlockedNames(t *testing.T) {
	t.Parallel()
	c, log, fake := onReal(t, 1), &logBuffer{}, clocktest.New()
	locker := c.logsTo(log, slog.LevelWarn, prefixed, redlock.WithClock(fake))
	try := func(from, to int) {
		for i := from; i < to; i++ {
			name := fmt.Sprint("name-", i)
			c.do(0, "RPUSH", "app:"+name, "data")
			require.ErrorIs(t, errOf(locker.TryLock(t.Context(), name)), redlock.ErrForeign)
			require.LessOrEqual(t, redlock.BlockedNames(locker), 1024)
		}
	}
	redlock.LogBlocked(locker, 990)
	try(0, 10)
	fake.Advance(30 * time.Second)
	try(0, 40) // 24 of them are new, and have room
	require.Equal(t, 1024, redlock.BlockedNames(locker))
	fake.Advance(30 * time.Second)
	try(40, 50) // the first 1,000 are forgotten
	require.Equal(t, 24+10, redlock.BlockedNames(locker))
	try(0, 1)
	require.NoError(t, locker.Close())
	all := 0
	for _, r := range records(t, log) {
		if more, counted := r["lines"].(float64); counted {
			all += int(more)
		} else {
			all++
		}
	}
	require.Equal(t, 10+24+10+1, all)
}

func TestTryLock_RemembersNoNamesIfNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	c, log, seen := onReal(t, 1), &logBuffer{}, &recorder{}
	c.do(0, "RPUSH", "name", "data")
	for _, locker := range []*redlock.Locker{c.locker(redlock.WithObserver(seen)), c.logsTo(log, slog.LevelError)} {
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrForeign)
		require.Zero(t, redlock.BlockedNames(locker))
		require.NoError(t, locker.Close())
	}
	require.Empty(t, log.String())
}

// waitsOf returns the lines about long waits, once there are n.
func waitsOf(t *testing.T, log *logBuffer, message string, n int) (all []map[string]any) {
	t.Helper()
	eventually(t, func() bool {
		all = slices.DeleteFunc(records(t, log), func(r map[string]any) bool { return r["msg"] != "redlock: "+message })
		return len(all) >= n
	}, "%d lines about %s", n, message)
	return all
}

func TestLock_LogsAHolderThatItWaitsForAfterTenSecondsAndThenEachMinute(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} { // whether the holder is of the same Locker
		c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
		locker := c.logsTo(log, slog.LevelInfo, redlock.WithClock(fake))
		other := locker
		if !same {
			other = c.locker()
		}
		holder := c.everywhere(waits(t, other, "name", redlock.Metadata("pump 7"), redlock.TTL(24*time.Hour))) // else a second round hides it
		waiter := queue(t, t.Context(), locker, "name")
		if !same {
			eventually(t, func() bool { return redlock.Sees(locker, "name") }, "the key of the holder")
		}
		fake.Advance(10*time.Second - 1)
		second := queue(t, t.Context(), locker, "name")
		require.Empty(t, waitsOf(t, log, "waits for a lock", 0))
		fake.Advance(1)
		line := waitsOf(t, log, "waits for a lock", 1)[0]
		require.Equal(t, "INFO", line["level"])
		require.Equal(t, "name", line["name"])
		require.InDelta(t, 10*time.Second, line["waited"], 0)
		require.InDelta(t, 2, line["calls"], 0)
		require.Equal(t, "pump 7", line["holder"])
		require.Contains(t, line["error"], "lock is taken")
		require.NotContains(t, log.String(), holder.Token())
		for minute := 2; minute < 4; minute++ {
			fake.Advance(time.Minute - 1)
			require.Len(t, waitsOf(t, log, "waits for a lock", minute-1), minute-1)
			fake.Advance(1)
			waitsOf(t, log, "waits for a lock", minute)
		}
		unlock(t, holder)
		for _, w := range []<-chan held{waiter, second} {
			unlock(t, won(t, w))
		}
		fake.Advance(time.Hour)
		locker.Drain()
		require.Len(t, waitsOf(t, log, "waits for a lock", 3), 3, "nobody waits")
	}
}

// The wait of a call that comes when the line before was written is logged in its turn: it has waited for ten seconds, too.
func TestLock_LogsEachWaitThatIsLong(t *testing.T) {
	t.Parallel()
	c, log, fake := onMini(t, 3), &logBuffer{}, clocktest.New()
	locker := c.logsTo(log, slog.LevelInfo, redlock.WithClock(fake))
	for i := range 3 {
		holder := waits(t, locker, "name", redlock.TTL(24*time.Hour))
		waiter := queue(t, t.Context(), locker, "name")
		fake.Advance(5 * time.Second)
		require.Len(t, waitsOf(t, log, "waits for a lock", i), i)
		fake.Advance(5 * time.Second)
		waitsOf(t, log, "waits for a lock", i+1)
		unlock(t, holder)
		unlock(t, won(t, waiter))
		fake.Advance(time.Minute) // the line that is due finds nobody
	}
}

func TestLock_LogsServersThatItWaitsFor(t *testing.T) {
	t.Parallel()
	c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
	seen := &recorder{}
	locker := c.logsTo(log, slog.LevelInfo, redlock.WithClock(fake), redlock.WithObserver(seen))
	unlock(t, take(t, locker, "other"))
	c.eventuallyEmpty() // a release that comes later is refused
	c.doFirst(2, "CONFIG", "SET", "min-replicas-to-write", 1)
	waiter := queue(t, t.Context(), locker, "name")
	seen.waitForRefusals(t, 2)
	turnUntil(t, fake, time.Second, func() bool { return len(waitsOf(t, log, "waits for a lock", 0)) > 0 })
	line := waitsOf(t, log, "waits for a lock", 1)[0]
	require.Equal(t, "WARN", line["level"])
	require.Contains(t, line["error"], "NOREPLICAS")
	c.doFirst(2, "CONFIG", "SET", "min-replicas-to-write", 0)
	turnUntil(t, fake, time.Second, func() bool { return len(waiter) > 0 })
	won(t, waiter)
}

// Two functions of Do take two locks in opposite order: without a limit they wait for ever.
func TestDo_LogsTwoLocksThatAreTakenInOppositeOrder(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{true, false} { // in one process
		c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
		first := c.logsTo(log, slog.LevelInfo, redlock.WithClock(fake), redlock.TTL(24*time.Hour))
		second, others := first, "calls of this Locker"
		if !together {
			second, others = c.logsTo(&logBuffer{}, slog.LevelInfo, redlock.WithClock(fake), redlock.TTL(24*time.Hour)), "another process"
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		nested := func(locker *redlock.Locker, outer, inner string) (goOn func()) {
			held, both := make(chan struct{}), make(chan struct{})
			go func() {
				ended <- locker.Do(ctx, outer, func(ctx context.Context, _ *redlock.Lock) error {
					close(held)
					<-both
					return locker.Do(ctx, inner, func(ctx context.Context, _ *redlock.Lock) error { return ctx.Err() })
				})
			}()
			receive(t, held, "the outer lock")
			return func() { close(both) }
		}
		one, two := nested(first, "from", "to"), nested(second, "to", "from")
		two()
		eventually(t, func() bool { return redlock.Waiting(second, "from") == 1 && (together || redlock.Sees(second, "from")) }, "the second waits")
		one() // which gets no messages before it waits itself
		eventually(t, func() bool { return redlock.Waiting(first, "to") == 1 }, "the first waits")
		turnUntil(t, fake, 10*time.Second, func() bool { return strings.Contains(log.String(), "wait for each other") })
		line := waitsOf(t, log, "calls wait for each other, as they took locks in different orders", 1)[0]
		require.Equal(t, "WARN", line["level"])
		require.ElementsMatch(t, []any{"from", "to"}, []any{line["holds"], line["name"]})
		require.Equal(t, others, line["others"])
		for _, line := range waitsOf(t, log, "waits for a lock", 1) {
			require.Equal(t, map[any]any{"from": "[to]", "to": "[from]"}[line["name"]], fmt.Sprint(line["holds"]))
		}
		cancel()
		for range 2 {
			require.ErrorIs(t, receive(t, ended, "the end"), context.Canceled)
		}
	}
}

// The first who gives up sees that the others wait for it, long before a wait is logged.
func TestDo_LogsCallsThatWaitForEachOtherWhenOneGivesUp(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	for n := 2; n <= len(names); n++ {
		c, log := onMini(t, 3).mayLeave(), &logBuffer{} // a call that waits may get its lock as the test ends
		locker := c.logsTo(log, slog.LevelWarn)
		var contexts []context.Context
		for _, name := range names[:n] {
			ctx, cancel := take(t, locker, name).Context(t.Context())
			defer cancel()
			contexts = append(contexts, ctx)
		}
		giveUp, cancel := context.WithCancel(contexts[n-1])
		waiters := []<-chan held{queue(t, giveUp, locker, "a")}
		for i := range n - 1 {
			waiters = append(waiters, queue(t, contexts[i], locker, names[i+1]))
		}
		cancel()
		require.ErrorIs(t, receive(t, waiters[0], "the end").err, context.Canceled)
		line := waitsOf(t, log, "calls wait for each other, as they took locks in different orders", 1)[0]
		ring := fmt.Sprint(names[n-1], " ")
		for i := n - 2; i >= 0; i-- {
			ring += names[i] + " "
		}
		require.Equal(t, "["+strings.TrimSpace(ring)+"]", fmt.Sprint(line["names"]))
		require.Equal(t, []any{names[n-1], "a"}, []any{line["holds"], line["name"]})
	}
}

// Another call of the other process may wait for the lock that this call holds, while the one that holds the other is not waiting.
func TestDo_DoesNotTakeCallsOfAnotherProcessForOne(t *testing.T) {
	t.Parallel()
	c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
	first := c.logsTo(log, slog.LevelInfo, redlock.WithClock(fake), redlock.TTL(24*time.Hour))
	second := c.logsTo(log, slog.LevelInfo, redlock.WithClock(fake), redlock.TTL(24*time.Hour))
	to := waits(t, second, "to")
	from := waits(t, first, "from")
	unrelated := queue(t, t.Context(), second, "from")
	eventually(t, func() bool { return redlock.Sees(second, "from") }, "the key of the first")
	ctx := contextOf(t, from)
	waiter := queue(t, ctx, first, "to")
	eventually(t, func() bool { return redlock.Sees(first, "to") }, "the key of the second")
	for range 3 {
		fake.Advance(time.Minute)
	}
	waitsOf(t, log, "waits for a lock", 4)
	next := func(l *redlock.Locker, name string) { // it may let others go first for a moment
		turnUntil(t, fake, 10*time.Millisecond, func() bool { return redlock.Waiting(l, name) == 0 })
	}
	unlock(t, to)
	next(first, "to")
	unlock(t, won(t, waiter))
	unlock(t, from)
	next(second, "from")
	unlock(t, won(t, unrelated))
	require.NotContains(t, log.String(), "wait for each other")
}

// The outer locks need not have been waited for.
func TestLock_LogsTwoLocksOfTryLockThatAreTakenInOppositeOrder(t *testing.T) {
	t.Parallel()
	c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
	first := c.logsTo(log, slog.LevelInfo, redlock.WithClock(fake), redlock.TTL(24*time.Hour))
	second := c.logsTo(&logBuffer{}, slog.LevelInfo, redlock.WithClock(fake), redlock.TTL(24*time.Hour))
	one, giveUp := take(t, first, "from").Context(t.Context())
	two, giveUpToo := take(t, second, "to").Context(t.Context())
	to, from := queue(t, one, first, "to"), queue(t, two, second, "from")
	turnUntil(t, fake, 10*time.Second, func() bool { return strings.Contains(log.String(), "wait for each other") })
	line := waitsOf(t, log, "calls wait for each other, as they took locks in different orders", 1)[0]
	require.Equal(t, []any{"from", "to", "another process"}, []any{line["holds"], line["name"], line["others"]})
	giveUp()
	giveUpToo()
	for _, waiter := range []<-chan held{to, from} {
		require.ErrorIs(t, receive(t, waiter, "the end").err, context.Canceled)
	}
}

// The reason of a wait is what the nodes show, also if this process has asked none for the lock since it passed the turn on.
func TestLock_SaysThatTheLockIsTakenAfterItHasObservedThat(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker()
	lock := waits(t, locker, "name")
	ctx, cancel := context.WithCancel(t.Context())
	waiter := queue(t, ctx, locker, "name")
	c.mayLeave()
	detach(t, lock) // the waiter looks at the nodes, and asks none
	eventually(t, func() bool { return redlock.Sees(locker, "name") }, "the key")
	cancel()
	err := receive(t, waiter, "the end").err
	requireIs(t, err, redlock.ErrTaken, not{redlock.ErrNoQuorum}, nodeerr.ErrHeld)
}

// A call that has waited for a holder of its own Locker, and whose time is over in its first round, has not waited for servers.
func TestLock_SaysThatTheLockWasTakenThoughItsOwnRoundIsStopped(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker()
	lock := waits(t, locker, "name")
	ctx, cancel := context.WithCancel(t.Context())
	waiter := queue(t, ctx, locker, "name")
	for _, p := range c.processes { // so that the round of the waiter has no outcome
		p.Freeze()
	}
	require.ErrorIs(t, lock.Unlock(briefly(t)), context.DeadlineExceeded)
	cancel()
	err := receive(t, waiter, "the end").err
	thaw(c.processes...)
	requireIs(t, err, redlock.ErrTaken, not{redlock.ErrNoQuorum})
}

// A program that makes up names must not fill the log.
func TestLock_LogsTheWaitsForABoundedNumberOfNames(t *testing.T) {
	t.Parallel()
	c, log, fake := onMini(t, 1), &logBuffer{}, clocktest.New()
	holder := c.locker(redlock.TTL(24 * time.Hour))
	locker := c.logsTo(log, slog.LevelInfo, redlock.WithClock(fake))
	ctx, cancel := context.WithCancel(t.Context())
	var waiters []<-chan held
	for i := range 14 {
		name := fmt.Sprint("name-", i)
		take(t, holder, name)
		waiters = append(waiters, queue(t, ctx, locker, name))
		eventually(t, func() bool { return redlock.Sees(locker, name) }, "the key of the holder") // or a line is a warning
	}
	fake.Advance(10 * time.Second)
	require.Len(t, waitsOf(t, log, "waits for a lock", 10), 10)
	fake.Advance(time.Minute)
	require.Len(t, waitsOf(t, log, "waits for a lock", 2*10), 2*10)
	more := waitsOf(t, log, "more lines than are logged", 1)
	require.Len(t, more, 1)
	require.Equal(t, "waits for a lock (4)", more[0]["about"])
	cancel()
	for _, w := range waiters {
		require.ErrorIs(t, receive(t, w, "the end").err, context.Canceled)
	}
}

func TestWaits_TheTimerOfLongWaitsEndsWithTheNameAndWithTheLocker(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*redlock.Locker){
		"forgotten": redlock.DiscardIdle,
		"closed":    func(l *redlock.Locker) { require.NoError(t, l.Close()) },
	} {
		fake := clocktest.New()
		locker := onMini(t, 3).logsTo(&logBuffer{}, slog.LevelInfo, redlock.WithClock(fake))
		require.NoError(t, waits(t, locker, "name").Unlock(t.Context()))
		end(locker)
		_, pending := fake.Next()
		require.False(t, pending, what)
	}
}

// The danger: a timer of the name that has the first call which waited for it, and so the context of that call, as long as the name is
// remembered.
func TestWaits_TheContextOfACallIsFreedWhenItHasTheLock(t *testing.T) {
	t.Parallel()
	type key struct{}
	locker, freed := onMini(t, 3).logsTo(&logBuffer{}, slog.LevelInfo), make(chan struct{})
	func() {
		value := new([1 << 20]byte)
		runtime.AddCleanup(value, func(freed chan struct{}) { close(freed) }, freed)
		lock, err := locker.Lock(context.WithValue(t.Context(), key{}, value), "name")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
	}()
	for range 3 { // nothing but the name can have the first now
		require.NoError(t, waits(t, locker, "name").Unlock(t.Context()))
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-freed:
			return true
		default:
			return false
		}
	}, time.Minute, time.Millisecond)
	runtime.KeepAlive(locker)
}
