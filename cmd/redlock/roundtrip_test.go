package main

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRoundTrips_BeginWithTheWriteAndEndWithTheAnswer(t *testing.T) {
	const pause = 20 * time.Millisecond
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	trips := &roundTrips{latest: map[string]time.Duration{}}
	conn := &measuredConn{Conn: near, address: "node", to: trips}
	require.Zero(t, trips.of("node"))
	buffer := make([]byte, 10)
	go func() {
		b := make([]byte, 10)
		_, _ = far.Read(b)
		<-time.After(pause)
		_, _ = far.Write([]byte("answer"))
		<-time.After(pause)
		_, _ = far.Write([]byte("push"))
	}()
	_, err := conn.Write([]byte("question"))
	require.NoError(t, err)
	_, err = conn.Read(buffer)
	require.NoError(t, err)
	first := trips.of("node")
	require.GreaterOrEqual(t, first, pause)
	_, err = conn.Read(buffer)
	require.NoError(t, err)
	require.Equal(t, first, trips.of("node"), "nobody asked for this")
}
