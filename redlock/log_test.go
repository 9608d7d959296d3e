package redlock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
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
			require.ErrorIs(t, lock.Extend(t.Context(), 3*long), redlock.ErrLost)
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

// Nobody asks the lock, and no call returns an error.
func TestLogger_LogsARenewedLockThatExpires(t *testing.T) {
	t.Parallel()
	c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
	locker := c.logsTo(log, slog.LevelWarn, redlock.WithClock(fake))
	take(t, locker, "name", redlock.AutoExtend(), redlock.TTL(time.Minute))
	kill(c.processes[1:]...)
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
		require.NoError(t, take(t, locker, "other").Unlock(t.Context()))
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
	want := []string{"WARN too few nodes grant locks name"}
	for _, server := range c.servers {
		want = append(want, "WARN a node does not vote, as it may have forgotten locks "+server.Addr())
	}
	require.ElementsMatch(t, want, lines(t, log, 4))
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

// askingHandler asks a lock how it stands before it says whether it wants a line.
type askingHandler struct {
	slog.Handler
	lock  atomic.Pointer[redlock.Lock]
	asked atomic.Int32
}

func (h *askingHandler) Enabled(context.Context, slog.Level) bool {
	if lock := h.lock.Load(); lock != nil {
		h.asked.Add(1)
		return lock.Err() != nil
	}
	return false
}

// The danger: the handler is asked under the mutex of the lock, so that the call and the node hang.
func TestWithLogger_TheHandlerMayAskTheLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		h := &askingHandler{Handler: slog.DiscardHandler}
		lock := take(t, c.locker(redlock.WithLogger(slog.New(h))), "name")
		c.eventuallyHeld(lock.Name(), lock.Token())
		h.lock.Store(lock)
		c.doFirst(2, "DEL", lock.Name())
		ended := beside(func() error { return lock.Extend(t.Context(), long) })
		require.ErrorIs(t, receive(t, ended, "the end of Extend"), redlock.ErrLost)
		require.Positive(t, h.asked.Load())
	})
}
