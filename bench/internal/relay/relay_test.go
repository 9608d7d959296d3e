package relay_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/relay"
)

// serve returns the address of a server that does something with each connection, and closes it then.
func serve(t *testing.T, do func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			do(c.(*net.TCPConn))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		assert.NoError(t, l.Close())
		<-done
	})
	return l.Addr().String()
}

func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

func launch(t *testing.T, oneWay time.Duration, servers ...string) *relay.Relay {
	t.Helper()
	r, err := relay.Launch(t.Context(), servers, oneWay)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	return c.(*net.TCPConn)
}

func TestAnAnswerTakesTheDelayOfBothDirections(t *testing.T) {
	const oneWay = 30 * time.Millisecond
	c := dial(t, launch(t, oneWay, serve(t, echo)).Addrs()[0])
	for range 3 {
		sent := time.Now()
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(sent), 2*oneWay)
	}
}

func TestEachAddressIsThatOfItsServer(t *testing.T) {
	say := func(what string) func(*net.TCPConn) {
		return func(c *net.TCPConn) { _, _ = io.WriteString(c, what) }
	}
	r := launch(t, time.Millisecond, serve(t, say("first")), serve(t, say("second")))
	for i, want := range []string{"first", "second"} {
		got, err := io.ReadAll(dial(t, r.Addrs()[i]))
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
}

func TestChunksKeepTheirOrderAndDoNotWaitForEachOther(t *testing.T) {
	c := dial(t, launch(t, 200*time.Millisecond, serve(t, echo)).Addrs()[0]) // one after the other: 51 s and more in each direction
	want := make([]byte, 4<<20)
	for i := range want {
		want[i] = byte(i / 251)
	}
	go func() {
		_, _ = c.Write(want)
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))
}

func TestAServerThatClosesEndsTheConnection(t *testing.T) {
	c := dial(t, launch(t, time.Millisecond, serve(t, func(*net.TCPConn) {})).Addrs()[0])
	_, err := c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
}

func TestAServerLearnsThatItsClientHasGone(t *testing.T) {
	gone := make(chan string, 1)
	r := launch(t, time.Millisecond, serve(t, func(c *net.TCPConn) {
		var all strings.Builder
		_, _ = io.Copy(&all, c)
		gone <- all.String()
	}))
	c := dial(t, r.Addrs()[0])
	_, err := c.Write([]byte("last words"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	select {
	case said := <-gone:
		assert.Equal(t, "last words", said)
	case <-time.After(30 * time.Second):
		assert.Fail(t, "the server still waits")
	}
}

func TestConnectionsEndWithTheRelay(t *testing.T) {
	for _, how := range []string{"Close", "the context"} {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := relay.Launch(ctx, []string{serve(t, echo)}, time.Millisecond)
			require.NoError(t, err)
			defer r.Close()
			c := dial(t, r.Addrs()[0])
			_, err = c.Write([]byte("x"))
			require.NoError(t, err)
			_, err = io.ReadFull(c, make([]byte, 1))
			require.NoError(t, err)
			if how == "Close" {
				require.NoError(t, r.Close())
			} else {
				cancel()
			}
			_, err = c.Read(make([]byte, 1))
			assert.Error(t, err)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			assert.NotContains(t, err.Error(), "timeout")
		})
	}
}
