package testredis_test

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

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// both runs a test on each kind of server.
func both(t *testing.T, n int, test func(t *testing.T, servers []testredis.Server)) {
	t.Run("miniredis", func(t *testing.T) { test(t, testredis.Mini(t, n)) })
	t.Run("redis-server", func(t *testing.T) { test(t, testredis.Servers(testredis.Real(t, n))) })
}

func TestServers_AreIndependentOfEachOther(t *testing.T) {
	both(t, 3, func(t *testing.T, servers []testredis.Server) {
		for i, s := range servers {
			reply, err := s.Do("SET", "key", i)
			require.NoError(t, err)
			assert.Equal(t, "OK", reply)
		}
		for i, s := range servers {
			value, err := redis.Int(s.Do("GET", "key"))
			require.NoError(t, err)
			assert.Equal(t, i, value)
		}
	})
}

func TestURLs_NameEachServerInOrder(t *testing.T) {
	both(t, 2, func(t *testing.T, servers []testredis.Server) {
		assert.Equal(t, []string{"redis://" + servers[0].Addr(), "redis://" + servers[1].Addr()}, testredis.URLs(servers))
		for _, url := range testredis.URLs(servers) {
			c, err := redis.DialURL(url)
			require.NoError(t, err)
			assert.NoError(t, c.Close())
		}
	})
}

func TestServer_ComesBackEmptyOnTheSameAddress(t *testing.T) {
	both(t, 1, func(t *testing.T, servers []testredis.Server) {
		s := servers[0]
		addr := s.Addr()
		script, err := redis.String(s.Do("SCRIPT", "LOAD", "return 1"))
		require.NoError(t, err)
		_, err = s.Do("SET", "key", "value")
		require.NoError(t, err)
		c, err := redis.DialURL(s.URL())
		require.NoError(t, err)
		defer c.Close()

		s.Stop()
		_, err = c.Do("PING")
		require.Error(t, err, "the connection that was open is cut")
		_, err = s.Do("PING")
		require.Error(t, err, "and no new one can be made")
		s.Stop()

		for range 2 {
			s.Start() // the second time there is nothing to do
			require.Equal(t, addr, s.Addr())
			_, err = redis.String(s.Do("GET", "key"))
			require.ErrorIs(t, err, redis.ErrNil)
			_, err = s.Do("EVALSHA", script, 0)
			require.ErrorContains(t, err, "NOSCRIPT")
		}
	})
}

func TestServer_FailsTheTestIfItsAddressWasTaken(t *testing.T) {
	testredis.Real(t, 0) // skips this test too where redis-server is missing
	tb := &recorder{TB: t}
	servers := append(testredis.Mini(tb, 1), testredis.Servers(testredis.Real(tb, 1))...)
	for i, s := range servers {
		s.Stop()
		l, err := net.Listen("tcp", s.Addr())
		require.NoError(t, err)
		s.Start()
		assert.Len(t, tb.errors, i+1)
		require.NoError(t, l.Close())
		s.Start()
		_, err = s.Do("PING")
		require.NoError(t, err)
	}
	for _, message := range tb.errors {
		assert.Contains(t, message, "ddress already in use")
	}
}

func TestServer_ExpiresAKeyWhenItsTTLIsOverAndNotBefore(t *testing.T) {
	const ttl = 20 * time.Millisecond
	both(t, 1, func(t *testing.T, servers []testredis.Server) {
		c, err := redis.DialURL(servers[0].URL())
		require.NoError(t, err)
		defer c.Close()
		for range 10 {
			<-time.After(ttl) // idle time must not be charged to a key that is set after it
			sent := time.Now()
			_, err := c.Do("SET", "key", "value", "PX", ttl.Milliseconds())
			require.NoError(t, err)
			for err == nil {
				require.Less(t, time.Since(sent), ttl+5*time.Second, "the key is still there")
				_, err = redis.String(c.Do("GET", "key"))
			}
			require.ErrorIs(t, err, redis.ErrNil)
			require.GreaterOrEqual(t, time.Since(sent), ttl)
		}
	})
}

func TestServer_ShowsRealTimeToScripts(t *testing.T) {
	both(t, 1, func(t *testing.T, servers []testredis.Server) {
		s := servers[0]
		_, err := s.Do("SET", "key", "value", "PX", 10_000)
		require.NoError(t, err)
		<-time.After(20 * time.Millisecond)
		left, err := redis.Int(s.Do("EVAL", "return redis.call('PTTL', KEYS[1])", 1, "key"))
		require.NoError(t, err)
		assert.LessOrEqual(t, left, 9_980)
		assert.Greater(t, left, 0)
	})
}

func TestProcess_FrozenAcceptsConnectionsButAnswersOnlyWhenThawed(t *testing.T) {
	s := testredis.Real(t, 1)[0]
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

func TestProcess_FrozenCanBeStoppedAndStarted(t *testing.T) {
	s := testredis.Real(t, 1)[0]
	before := s.PID()
	s.Freeze()
	s.Stop()
	assert.Zero(t, s.PID())
	s.Start()
	assert.NotEqual(t, before, s.PID())
	_, err := s.Do("PING")
	assert.NoError(t, err)
}

func TestProcess_FrozenEndsWithItsTest(t *testing.T) {
	var addr string
	t.Run("frozen", func(t *testing.T) {
		s := testredis.Real(t, 1)[0]
		addr = s.Addr()
		s.Freeze()
		require.DirExists(t, s.Dir())
	})
	_, err := net.Dial("tcp", addr)
	assert.Error(t, err)
}

func TestProcess_CanBeStartedAfterItShutItselfDown(t *testing.T) {
	s := testredis.Real(t, 1)[0]
	_, err := s.Do("SHUTDOWN", "NOSAVE")
	require.Error(t, err)
	require.Eventually(t, func() bool { return s.PID() == 0 }, 5*time.Second, time.Millisecond)
	s.Start()
	_, err = s.Do("PING")
	assert.NoError(t, err)
}

func TestReal_PassesArgumentsToTheServer(t *testing.T) {
	s := testredis.Real(t, 1, "--requirepass", "secret", "--unixsocket", "redis.sock")[0]
	_, err := s.Do("PING")
	require.NoError(t, err, "Do logs in")

	_, err = redis.Dial("unix", filepath.Join(s.Dir(), "redis.sock"), redis.DialPassword("wrong"))
	require.ErrorContains(t, err, "WRONGPASS")
	c, err := redis.Dial("unix", filepath.Join(s.Dir(), "redis.sock"), redis.DialPassword("secret"))
	require.NoError(t, err)
	assert.NoError(t, c.Close())
}

func TestReal_FailsTheTestWithWhatTheServerPrinted(t *testing.T) {
	testredis.Real(t, 0) // skips this test too where redis-server is missing
	tb := &recorder{TB: t}
	tb.run(func() { testredis.Real(tb, 2, "--no-such-option", "1") })
	assert.Contains(t, tb.fatal, "no-such-option")
}

func TestReal_SkipsTheTestWithoutAServerButFailsItInCI(t *testing.T) {
	t.Setenv("QUORUMLOCK_REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())

	t.Setenv("CI", "")
	tb := &recorder{TB: t}
	tb.run(func() { testredis.Real(tb, 1) })
	assert.Contains(t, tb.skip, "redis-server is not installed")
	assert.Empty(t, tb.fatal)

	t.Setenv("CI", "true")
	tb = &recorder{TB: t}
	tb.run(func() { testredis.Real(tb, 1) })
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
