package relay_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo runs a server that sends back what it receives. It sends to ended when a connection ends.
func echo(t *testing.T) (addr string, ended chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended = make(chan error, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, err := io.Copy(c, c)
				_ = c.Close()
				ended <- err
			}()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-done
	})
	return l.Addr().String(), ended
}

func start(t *testing.T, target string, delay time.Duration) *relay.Relay {
	t.Helper()
	r, err := relay.Start(target, delay)
	require.NoError(t, err)
	return r
}

func TestRelay_AnswersComeAfterTheDelay(t *testing.T) {
	target, _ := echo(t)
	const delay = 40 * time.Millisecond
	r := start(t, target, delay)
	defer r.Close()
	c, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	defer c.Close()
	for range 3 {
		sent := time.Now()
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(sent), delay)
	}
}

func TestRelay_ChunksDoNotWaitForEachOther(t *testing.T) {
	target, ended := echo(t)
	r := start(t, target, 200*time.Millisecond)
	defer r.Close()
	c, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	defer c.Close()
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB: at least 256 chunks
	go func() {
		_, _ = c.Write(want)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second))) // one after the other: 51 s
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))
	assert.NoError(t, <-ended)
}

func TestRelay_ServerReceivesEverythingThatAClientSentBeforeItLeft(t *testing.T) {
	target, ended := echo(t)
	r := start(t, target, time.Hour)
	defer r.Close()
	c, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	assert.NoError(t, <-ended)
}

func TestRelay_CloseClosesConnectionsWithoutWaitingForTheDelay(t *testing.T) {
	target, _ := echo(t)
	r := start(t, target, time.Hour)
	c, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	r.Close()
	_, err = c.Read(make([]byte, 1))
	assert.Error(t, err)
	_, err = net.Dial("tcp", r.Addr())
	assert.Error(t, err)
}

func TestRelay_ClosesTheConnectionIfTheServerIsUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gone := l.Addr().String()
	require.NoError(t, l.Close())
	r := start(t, gone, 0)
	defer r.Close()
	c, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Read(make([]byte, 1))
	assert.Error(t, err)
}
