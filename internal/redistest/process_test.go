package redistest_test

import (
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

func TestAFrozenServerAcceptsConnectionsButAnswersOnlyWhenThawed(t *testing.T) {
	s := redistest.Real(t, 1)[0]
	c, err := redis.DialURL(s.URL(), redis.DialReadTimeout(time.Minute))
	require.NoError(t, err)
	defer c.Close()

	for range 3 {
		s.Freeze()
		s.Freeze()
		other, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		require.NoError(t, other.Close())

		answered := make(chan error, 1)
		go func() {
			_, err := c.Do("PING")
			answered <- err
		}()
		select {
		case err := <-answered:
			require.Fail(t, "a frozen server has answered", "%v", err)
		case <-time.After(20 * time.Millisecond):
		}
		s.Thaw()
		s.Thaw()
		require.NoError(t, <-answered)
	}
}

func TestAFrozenServerCanBeStoppedAndStarted(t *testing.T) {
	s := redistest.Real(t, 1)[0]
	before := s.PID()
	s.Freeze()
	s.Stop()
	assert.Zero(t, s.PID())
	s.Start()
	assert.NotEqual(t, before, s.PID())
	_, err := s.Do("PING")
	assert.NoError(t, err)
}

func TestAFrozenServerEndsWithItsTest(t *testing.T) {
	var addr string
	t.Run("frozen", func(t *testing.T) {
		s := redistest.Real(t, 1)[0]
		addr = s.Addr()
		s.Freeze()
		require.DirExists(t, s.Dir())
	})
	_, err := net.Dial("tcp", addr)
	assert.Error(t, err)
}

func TestAServerThatShutItselfDownCanBeStartedAgain(t *testing.T) {
	s := redistest.Real(t, 1)[0]
	_, err := s.Do("SHUTDOWN", "NOSAVE")
	require.Error(t, err)
	require.Eventually(t, func() bool { return s.PID() == 0 }, 5*time.Second, time.Millisecond)
	s.Start()
	_, err = s.Do("PING")
	assert.NoError(t, err)
}

func TestArgumentsReachTheServer(t *testing.T) {
	s := redistest.Real(t, 1, "--requirepass", "secret", "--unixsocket", "redis.sock")[0]
	_, err := s.Do("PING")
	require.NoError(t, err, "Do logs in")

	_, err = redis.Dial("unix", filepath.Join(s.Dir(), "redis.sock"), redis.DialPassword("wrong"))
	require.ErrorContains(t, err, "WRONGPASS")
	c, err := redis.Dial("unix", filepath.Join(s.Dir(), "redis.sock"), redis.DialPassword("secret"))
	require.NoError(t, err)
	assert.NoError(t, c.Close())
}

func TestAnArgumentThatTheServerRefusesFailsTheTestWithItsWords(t *testing.T) {
	redistest.Real(t, 0) // skips this test too where redis-server is missing
	tb := &recorder{TB: t}
	tb.run(func() { redistest.Real(tb, 2, "--no-such-option", "1") })
	assert.Contains(t, tb.fatal, "no-such-option")
}

func TestAMissingServerSkipsTheTestButFailsItInCI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())

	t.Setenv("CI", "")
	tb := &recorder{TB: t}
	tb.run(func() { redistest.Real(tb, 1) })
	assert.Contains(t, tb.skip, "redis-server is not installed")
	assert.Empty(t, tb.fatal)

	t.Setenv("CI", "true")
	tb = &recorder{TB: t}
	tb.run(func() { redistest.Real(tb, 1) })
	assert.Contains(t, tb.fatal, "redis-server is not installed")
	assert.Empty(t, tb.skip)
}

// recorder keeps how a test failed or ended instead of letting it.
type recorder struct {
	testing.TB
	errors      []string
	fatal, skip string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatal(args ...any) { r.fatal = fmt.Sprint(args...); runtime.Goexit() }
func (r *recorder) Skip(args ...any)  { r.skip = fmt.Sprint(args...); runtime.Goexit() }

// run waits for fn, which may end early through Fatal or Skip.
func (r *recorder) run(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}
