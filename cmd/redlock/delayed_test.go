package main

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echo returns a delayed connection to a server that sends back what it receives, and a channel that
// is sent to when the server's end of it has ended.
func echo(t *testing.T, delay time.Duration) (c net.Conn, ended chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended = make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			_ = c.Close()
		}
		ended <- err
	}()
	server, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return delayed(server, delay), ended
}

func TestDelayed_AnswersComeAfterTheDelay(t *testing.T) {
	const delay = 40 * time.Millisecond
	c, _ := echo(t, delay)
	defer c.Close()
	for range 3 {
		sent := time.Now()
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(sent), delay)
	}
}

func TestDelayed_ChunksDoNotWaitForEachOther(t *testing.T) {
	c, ended := echo(t, 200*time.Millisecond)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB: at least 256 chunks
	go func() { _, _ = c.Write(want) }()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second))) // one after the other: 51 s
	got := make([]byte, len(want))
	_, err := io.ReadFull(c, got)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))
	require.NoError(t, c.Close())
	assert.NoError(t, <-ended)
}

func TestDelayed_ServerReceivesEverythingThatAClientSentBeforeItLeft(t *testing.T) {
	client, server := net.Pipe()
	c := delayed(server, time.Hour)
	received := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(client)
		received <- all
	}()
	_, err := c.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	assert.Equal(t, "x", string(<-received))
}

func TestDelayed_CloseDoesNotWaitForTheDelay(t *testing.T) {
	c, ended := echo(t, time.Hour)
	_, err := c.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	if err := <-ended; err != nil {
		assert.ErrorContains(t, err, "reset", "if the answer was not read before")
	}
}

func TestDelayed_EndsWithTheServersConnection(t *testing.T) {
	client, server := net.Pipe()
	c := delayed(server, 0)
	defer c.Close()
	require.NoError(t, client.Close())
	_, err := c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
}
