package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// docs/protocol.md is enough to write a client in another language: testdata/lock.py is one. It must not know more than
// the page says.

const pythonClient = "testdata/lock.py"

// python returns a Python that has the package redis. Debian's is python3 in /usr/bin, whatever else is on the PATH.
func python(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(t.Context(), program, "-c", "import redis").Run() == nil {
			return program
		}
	}
	const missing = "the tests with a client in Python, as no Python has the package redis: make setup brings it"
	if os.Getenv("CI") == inCI {
		require.FailNow(t, "CI=true, but this would leave out: "+missing)
	}
	t.Skip("LEFT OUT: " + missing)
	return ""
}

// pythonLocker is the client in Python: a process, which may have one lock at a time.
type pythonLocker struct {
	t       *testing.T
	mu      sync.Mutex
	input   io.Writer
	answers *bufio.Scanner
	token   string // of the last lock that it got
}

func (s *oldServers) pythonLocker(t *testing.T) *pythonLocker {
	t.Helper()
	return s.guardedPythonLocker(t, 0)
}

// guardedPythonLocker is a client on servers whose Lockers have a restart guard.
func (s *oldServers) guardedPythonLocker(t *testing.T, guard time.Duration) *pythonLocker {
	t.Helper()
	args := []string{pythonClient, strconv.FormatInt(guard.Milliseconds(), 10)}
	cmd := exec.Command(python(t), append(args, s.addrs...)...)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		assert.NoError(t, input.Close()) // which ends it
		assert.NoError(t, cmd.Wait())
	})
	return &pythonLocker{t: t, input: input, answers: bufio.NewScanner(output)}
}

// do sends a command, and returns the words of the answer.
func (p *pythonLocker) do(command string, args ...any) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintln(p.input, append([]any{command}, args...)...)
	require.NoError(p.t, err)
	require.True(p.t, p.answers.Scan(), "the client in Python has ended")
	return strings.Fields(p.answers.Text())
}

func (p *pythonLocker) acquire(name string, ttl time.Duration) bool {
	answer := p.do("acquire", name, ttl.Milliseconds())
	if answer[0] == "yes" {
		p.token = answer[1]
	}
	return answer[0] == "yes"
}

func (p *pythonLocker) extend(ttl time.Duration) bool {
	return p.do("extend", ttl.Milliseconds())[0] == "yes"
}

// release returns how many servers held the lock.
func (p *pythonLocker) release() int { return p.number("release") }

func (p *pythonLocker) valid() time.Duration {
	return time.Duration(p.number("valid")) * time.Millisecond
}

func (p *pythonLocker) number(command string) int {
	n, err := strconv.Atoi(p.do(command)[0])
	require.NoError(p.t, err)
	return n
}

func TestProtocol_AClientInPythonAndALockerExcludeEachOther(t *testing.T) {
	s := newOldServers(t, size)
	us, them := s.locker(t), s.pythonLocker(t)
	ctx := bounded(t)

	require.True(t, them.acquire("theirs", longTTL))
	s.requireStays(t, "theirs", redlock.Token(them.token))
	_, err := us.TryLock(ctx, "theirs")
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.NotErrorIs(t, err, redlock.ErrForeign)
	state, err := us.Inspect(ctx, "theirs")
	require.NoError(t, err)
	require.Len(t, state.Holders, 1)
	require.EqualValues(t, them.token, state.Holders[0].Token)
	require.True(t, them.extend(longTTL))
	s.requireStays(t, "theirs", redlock.Token(them.token))
	require.True(t, them.extend(time.Second), "a shorter TTL leaves the longer one")
	s.requireStays(t, "theirs", redlock.Token(them.token))
	require.Greater(t, them.valid(), longTTL-2*testBound)
	require.LessOrEqual(t, them.valid(), longTTL-longTTL/100-2*time.Millisecond)
	require.Equal(t, size, them.release())
	require.Zero(t, them.valid())
	s.requireNothing(t, "theirs")

	lock, err := us.TryLock(ctx, "ours")
	require.NoError(t, err)
	require.False(t, them.acquire("ours", longTTL))
	s.requireStays(t, "ours", lock.Token())
	require.NoError(t, lock.Extend(ctx, longTTL))
	require.NoError(t, lock.Unlock(ctx))
	s.requireNothing(t, "ours")
	require.True(t, them.acquire("ours", longTTL))
	require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNotHeld)
	s.requireStays(t, "ours", redlock.Token(them.token))
	require.Equal(t, size, them.release())
}

func TestProtocol_ALockOfAnyKindKeepsAClientInPythonOut(t *testing.T) {
	s := newOldServers(t, size)
	us, fenced, them := s.locker(t), s.locker(t, redlock.WithFencing()), s.pythonLocker(t)
	ctx := bounded(t)
	for name, take := range map[string]func(name string) (*redlock.Lock, error){
		"shared": func(name string) (*redlock.Lock, error) { return us.TryLock(ctx, name, redlock.Shared()) },
		"slot":   func(name string) (*redlock.Lock, error) { return us.TryLock(ctx, name, redlock.Slots(2)) },
		"fenced": func(name string) (*redlock.Lock, error) { return fenced.TryLock(ctx, name) },
	} {
		t.Run(name, func(t *testing.T) {
			lock, err := take(name)
			require.NoError(t, err)
			require.False(t, them.acquire(name, longTTL))
			require.NoError(t, lock.Extend(ctx, longTTL))
			require.NoError(t, lock.Unlock(ctx))
			s.requireNothing(t, name)

			require.True(t, them.acquire(name, longTTL))
			_, err = take(name)
			require.ErrorIs(t, err, redlock.ErrTaken)
			s.requireStays(t, name, redlock.Token(them.token))
			require.Equal(t, size, them.release())
		})
	}
}

func TestProtocol_AWaiterIsWokenByTheReleaseOfAClientInPython(t *testing.T) {
	s := newOldServers(t, size)
	us, them := s.locker(t), s.pythonLocker(t)
	ctx := bounded(t)
	require.True(t, them.acquire("name", longTTL))
	won := s.waitFor(ctx, t, us, "name")
	require.Equal(t, size, them.release())
	lock := requireWoken(t, won)
	s.requireStays(t, "name", lock.Token())

	require.Zero(t, them.release(), "a second release leaves the lock of the next holder alone")
	s.requireStays(t, "name", lock.Token())
	require.False(t, them.extend(longTTL))
	require.NoError(t, lock.Unlock(ctx))
}

func TestProtocol_AClientInPythonThatIsLateLeavesTheNextHolderAlone(t *testing.T) {
	s := newOldServers(t, size)
	us, them := s.locker(t), s.pythonLocker(t)
	ctx := bounded(t)
	require.Eventually(t, func() bool { // a busy machine may take longer than the TTL
		return them.acquire("name", shortTTL)
	}, settleBound, settleLook)
	lock, err := us.Lock(ctx, "name") // its TTL ends
	require.NoError(t, err)
	require.Zero(t, them.valid())
	require.False(t, them.extend(longTTL))
	require.LessOrEqual(t, them.release(), size/2) // a server that was late has kept theirs for longer
	s.requireStays(t, "name", lock.Token())
	require.NoError(t, lock.Unlock(ctx))
}

func TestProtocol_AClientInPythonNoticesThatAMajorityHasLostItsLock(t *testing.T) {
	s := newOldServers(t, size)
	us, them := s.locker(t), s.pythonLocker(t)
	ctx := bounded(t)
	require.True(t, them.acquire("name", longTTL))
	for _, conn := range s.conns[:size/2+1] {
		require.NoError(t, conn.Del(ctx, "name").Err())
	}
	require.Positive(t, them.valid(), "it does not know yet")
	require.False(t, them.extend(longTTL))
	require.Zero(t, them.valid(), "it does not rely on the rest of its TTL")
	lock, err := us.TryLock(ctx, "name")
	require.NoError(t, err)
	require.False(t, them.extend(longTTL))
	require.Equal(t, size-(size/2+1), them.release(), "those that had not lost it")
	require.NoError(t, lock.Unlock(ctx))
}

func TestProtocol_AMinorityMayBeAwayFromAClientInPython(t *testing.T) {
	servers := testredis.Real(t, size)
	s := &oldServers{}
	for _, server := range servers {
		s.addrs = append(s.addrs, server.Addr())
		s.conns = append(s.conns, newConn(t, server.Addr()))
	}
	us, them := s.locker(t), s.pythonLocker(t)
	ctx := bounded(t)
	for _, server := range servers[:size/2] {
		server.Stop()
	}
	require.True(t, them.acquire("name", longTTL))
	_, err := us.TryLock(ctx, "name")
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.Equal(t, size/2+1, them.release())
	servers[size/2].Stop()
	require.False(t, them.acquire("name", longTTL), "no majority answers")
}

// A server that may have forgotten locks does not vote for a client that reads its stamp. It does for one that does not.
func TestProtocol_AClientInPythonRespectsTheRestartGuard(t *testing.T) {
	const guard = time.Second
	servers := testredis.Real(t, size)
	s := &oldServers{}
	for _, server := range servers {
		s.addrs = append(s.addrs, server.Addr())
		s.conns = append(s.conns, newConn(t, server.Addr()))
	}
	them, careless := s.guardedPythonLocker(t, guard), s.pythonLocker(t)
	us, ctx := s.locker(t, redlock.TTL(guard), pool.WithRestartGuard(guard)), bounded(t)
	require.False(t, them.acquire("name", guard), "no server has a stamp")
	for i, conn := range s.conns {
		require.NoError(t, conn.Set(ctx, "quorumlock:since:"+s.addrs[i], "another:server", 59*24*time.Hour).Err())
	}
	require.False(t, them.acquire("name", guard), "the stamps are of other servers")
	s.requireNothing(t, "name")
	requireLater := func(began time.Time) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, _ = us.Inspect(ctx, "name") // which connects, and so stamps the servers
			return them.acquire("name", guard)
		}, settleBound, settleLook)
		require.GreaterOrEqual(t, time.Since(began), guard+guard/100)
		them.release()
	}
	began := time.Now()
	requireLater(began)

	for _, server := range servers[:size/2+1] {
		server.Stop()
	}
	began = time.Now()
	for _, server := range servers[:size/2+1] {
		server.Start()
	}
	require.Eventually(t, func() bool { return careless.acquire("other", guard) }, settleBound, settleLook)
	requireLater(began)
}

// Each holder reads a number, and writes it back with one added. Two holders at a time would lose some.
func TestProtocol_ClientsInPythonAndLockersCountWithoutALoss(t *testing.T) {
	const clients, each = 3, 25
	s := newOldServers(t, size)
	ctx := bounded(t)
	var counter, inside atomic.Int64
	count := func() {
		assert.EqualValues(t, 1, inside.Add(1))
		before := counter.Load()
		<-time.After(time.Millisecond)
		counter.Store(before + 1)
		inside.Add(-1)
	}
	var all sync.WaitGroup
	for range clients {
		us, them := s.locker(t), s.pythonLocker(t)
		all.Go(func() {
			for range each {
				assert.NoError(t, us.Do(ctx, "counter", func(context.Context, *redlock.Lock) error { count(); return nil }))
			}
		})
		all.Go(func() {
			for n := 0; n < each && ctx.Err() == nil; {
				if !them.acquire("counter", longTTL) {
					<-time.After(rand.N(10 * time.Millisecond))
					continue
				}
				count()
				assert.GreaterOrEqual(t, them.release(), size/2+1)
				n++
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 2*clients*each, counter.Load())
}

func TestProtocol_TheClientInPythonHasItsScriptsFromThePage(t *testing.T) {
	program, err := os.ReadFile(pythonClient)
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "docs", "protocol.md"))
	require.NoError(t, err)
	scripts := regexp.MustCompile(`(?m)^[A-Z]+ = "(if .*)"$`).FindAllStringSubmatch(string(program), -1)
	require.Len(t, scripts, 2)
	for _, script := range scripts {
		require.Contains(t, string(page), script[1])
	}
}
