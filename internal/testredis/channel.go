package testredis

import (
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Subscribe has a client of its own subscribe to a channel of each server, until the test ends.
func Subscribe[S Server](tb testing.TB, servers []S, channel string) {
	tb.Helper()
	for _, s := range servers {
		c, err := redis.Dial("tcp", s.Addr())
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = c.Close() })
		subscriber := redis.PubSubConn{Conn: c}
		if err := subscriber.Subscribe(channel); err != nil {
			tb.Fatal(err)
		}
		if answer, is := subscriber.Receive().(redis.Subscription); !is {
			tb.Fatalf("%s: SUBSCRIBE %s: %v", s.Addr(), channel, answer)
		}
	}
}

// Subscribers returns how many clients of a server are subscribed to a channel. If the server does not say so, it fails
// the test.
func Subscribers(tb testing.TB, s Server, channel string) int64 {
	tb.Helper()
	reply, err := redis.Values(s.Do("PUBSUB", "NUMSUB", channel))
	if err != nil {
		tb.Error(err)
		return -1
	}
	return reply[1].(int64)
}
