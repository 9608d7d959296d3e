package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
)

func TestLink_HoldsBackCommandsAndLetsThemGoInOrder(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	p := dial(t, c)
	c.Link(0, 0).Hold(cluster.ToServer)
	var want strings.Builder
	for i := range 300 { // more than the relay keeps
		send(t, p, "APPEND", "key", fmt.Sprintf("%d,", i))
		fmt.Fprintf(&want, "%d,", i)
	}
	never(t, func() bool { n, err := redis.Int(c.Server(0).Do("EXISTS", "key")); return err == nil && n > 0 })
	c.Link(0, 0).Release(cluster.ToServer)
	eventually(t, has(c.Server(0), "key", want.String()))
}

func TestLink_HoldsBackRepliesAlone(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	p := connect(t, c, 0, 0)
	p.prints("connected")
	c.Link(0, 0).Hold(cluster.ToClient)
	p.send("SET key 1")
	eventually(t, has(c.Server(0), "key", "1"))
	p.isSilent()
	c.Server(0).Stop() // the end is held too, behind the reply
	p.isSilent()
	c.Link(0, 0).Release(cluster.ToClient)
	p.prints("OK")
	p.send("PING")
	p.ends()
}

func TestLink_CarriesOutWhatItHeldAfterTheClientHasEnded(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	p := dial(t, c)
	c.Link(0, 0).Hold(cluster.ToServer)
	send(t, p, "SET", "key", "1")
	require.NoError(t, p.Close())
	never(t, has(c.Server(0), "key", "1"))
	c.Link(0, 0).Release(cluster.Both)
	eventually(t, has(c.Server(0), "key", "1"))
}

func TestLink_CutEndsConnectionsAndWhatIsHeld(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	p := connect(t, c, 0, 0)
	p.prints("connected")
	c.Link(0, 0).Hold(cluster.ToServer)
	p.send("SET key 1")
	p.isSilent()
	c.Link(0, 0).Cut()
	p.ends()
	c.Link(0, 0).Release(cluster.Both)
	never(t, has(c.Server(0), "key", "1"))
	p = connect(t, c, 0, 0)
	p.prints("connected")
	p.send("PING")
	p.prints("PONG")
}

func TestLink_DelaysEachDirectionAndKeepsTheOrder(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	link := c.Link(0, 0)
	const delay = 100 * time.Millisecond
	for _, direction := range []cluster.Direction{cluster.ToServer, cluster.ToClient, cluster.Both} {
		link.Delay(cluster.Both, 0, 0)
		link.Delay(direction, delay, 0)
		least := delay
		if direction == cluster.Both {
			least = 2 * delay
		}
		assert.GreaterOrEqual(t, roundTrip(t, dial(t, c)), least)
	}
	link.Delay(cluster.Both, 0, delay) // all of it random
	p, want := dial(t, c), ""
	for i := range 20 {
		send(t, p, "APPEND", "key", fmt.Sprint(i))
		want += fmt.Sprint(i)
	}
	eventually(t, has(c.Server(0), "key", want))
}

func TestLink_DelaysEachConnectionOnItsOwn(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	const jitter = 100 * time.Millisecond
	c.Link(0, 0).Delay(cluster.ToServer, 0, jitter)
	first, second := dial(t, c), dial(t, c)
	eventually(t, func() bool { return roundTrip(t, first) < jitter/2 })
	eventually(t, func() bool { return roundTrip(t, first) > jitter/2 })
	reordered := func() bool {
		send(t, first, "SET", "key", "first")
		send(t, second, "SET", "key", "second")
		for _, p := range []redis.Conn{first, second} {
			_, err := p.Receive()
			require.NoError(t, err)
		}
		return has(c.Server(0), "key", "first")()
	}
	eventually(t, reordered)
	eventually(t, func() bool { return !reordered() })
}

func TestLink_LossMakesChunksLate(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	p := dial(t, c)
	c.Link(0, 0).Loss(1)
	assert.GreaterOrEqual(t, roundTrip(t, p), 400*time.Millisecond)
	c.Link(0, 0).Loss(0)
	eventually(t, func() bool { return roundTrip(t, p) < 200*time.Millisecond })
}

func TestLink_ResetsConnectionsToAServerThatIsStopped(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	old := connect(t, c, 0, 0)
	old.prints("connected")
	c.Server(0).Stop()
	old.send("PING")
	old.ends()
	eventually(t, func() bool {
		p, err := redis.Dial("tcp", c.Addr(0, 0))
		if err != nil {
			return true // it was reset before it was known
		}
		defer p.Close()
		_, err = p.Do("PING")
		return err != nil
	})
	require.NoError(t, c.Server(0).Start())
	roundTrip(t, dial(t, c))
}

// dial connects this process by way of client 0's relay.
func dial(t *testing.T, c *cluster.Cluster) redis.Conn {
	t.Helper()
	p, err := redis.Dial("tcp", c.Addr(0, 0), redis.DialReadTimeout(soon))
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// send sends a command of its own, at once.
func send(t *testing.T, p redis.Conn, cmd string, args ...any) {
	t.Helper()
	require.NoError(t, p.Send(cmd, args...))
	require.NoError(t, p.Flush())
}

func roundTrip(t *testing.T, p redis.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	_, err := p.Do("PING")
	require.NoError(t, err)
	return time.Since(began)
}
