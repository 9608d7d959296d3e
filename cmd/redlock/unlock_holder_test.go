package main

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// endings are the events of a Locker that say how its locks end, and when renewals succeed.
type endings struct {
	mu      sync.Mutex
	renewed int
	all     []event.End
}

func (e *endings) Observe(what event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch what := what.(type) {
	case event.Extend:
		e.renewed++
	case event.End:
		e.all = append(e.all, what)
	}
}

func (e *endings) seen() (renewed int, ended []event.End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.renewed, e.all
}

// What the tool removes shows in the events, and with them in the metrics, of the holder. survey.Overlap says when.
func TestUnlock_ByForceShowsInTheMetricsOfTheHolder(t *testing.T) {
	on, flags := real5(t)
	take := func(name string, opts ...redlock.LockOption) (*redlock.Lock, *endings) {
		seen := &endings{}
		locker, err := redlock.Open(testredis.URLs(on), redlock.WithObserver(seen), redlock.TTL(eternity),
			redlock.WithPoolOptions(pool.WithTimeout(10*time.Second)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = locker.Close() })
		lock, err := locker.TryLock(t.Context(), name, opts...)
		require.NoError(t, err)
		eventuallyHeld(t, on, name, lock.Token())
		return lock, seen
	}
	force := func(name string) {
		code, _, problems := call(t.Context(), with(flags, "unlock", name, "--force", "--yes")...)
		require.Zero(t, code, problems)
	}

	renewing, seen := take("renewed", redlock.AutoExtend())
	require.Eventually(t, func() bool { n, _ := seen.seen(); return n > 0 }, time.Minute, time.Millisecond)
	force("renewed")
	<-renewing.Done() // an hour before its deadline
	require.ErrorIs(t, renewing.Err(), redlock.ErrLost)
	requireEnd(t, seen, redlock.ErrLost)

	other, seen := take("other")
	force("other")
	require.NoError(t, other.Err(), "nobody has told it")
	require.ErrorIs(t, other.Unlock(t.Context()), redlock.ErrNotHeld)
	requireEnd(t, seen, redlock.ErrLost)
}

// requireEnd waits for the end of a lock, which has an error.
func requireEnd(t *testing.T, seen *endings, want error) {
	t.Helper()
	require.Eventually(t, func() bool { _, ended := seen.seen(); return len(ended) > 0 }, time.Minute, time.Millisecond)
	_, ended := seen.seen()
	require.Len(t, ended, 1)
	require.ErrorIs(t, ended[0].Err, want)
}

func TestUnlock_ByForceLeavesALineInTheLog(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--key-prefix=lock:")
	do(t, on[:4], "SET", "lock:na\"me", "27BGTI5J.qgh6W0aaaaaaaaaaaaaaaaaaaaaa:web1\x1b", "PX", eternity.Milliseconds())
	code, _, problems := call(t.Context(), with(flags, "unlock", "na\"me", "--force", "--yes")...)
	require.Zero(t, code)
	require.Equal(t, `redlock: forced unlock key="lock:na\"me" removed=4 nodes=5 holder="web1\x1b"`+"\n", problems)

	require.Empty(t, refused(t, 0, flags, "unlock", "na\"me", "--force", "--yes"), "nothing was removed")
}

// It is the same sentence wherever somebody is about to free a lock by force.
func TestUnlock_TheDocumentationSaysWhatHappensToTheHolder(t *testing.T) {
	for _, page := range []string{"tool.md", "guide.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		require.NoError(t, err)
		plain := strings.ReplaceAll(strings.Join(strings.Fields(string(text)), " "), "`", "")
		require.Contains(t, plain, survey.Overlap, page)
	}
	_, help, _ := call(t.Context(), "unlock", "--help")
	require.Contains(t, strings.Join(strings.Fields(help), " "), survey.Overlap)
}
