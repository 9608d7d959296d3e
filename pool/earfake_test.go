package pool_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// earFake is a fake that understands tracking.
type earFake struct {
	*fake
	more func(c *peer, args []string) (string, bool) // answers first

	mu        sync.Mutex
	redirects map[*peer]string // to which connection changes are told
	asked     []string         // the commands that have to do with it, with the connection's number
}

func newEarFake(t testing.TB, more func(c *peer, args []string) (string, bool)) *earFake {
	if more == nil {
		more = nothingMore
	}
	f := &earFake{more: more, redirects: map[*peer]string{}}
	f.fake = newFake(t, f.hear)
	return f
}

func (f *earFake) hear(c *peer, args []string) string {
	f.mu.Lock()
	if args[0] == "CLIENT" && args[1] != "ID" || strings.Contains(args[0], "SUB") || args[0] == "PING" {
		f.asked = append(f.asked, fmt.Sprint(c.number, " ", strings.Join(args, " ")))
	}
	f.mu.Unlock()
	if reply, ok := f.more(c, args); ok {
		return reply
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case args[0] == "CLIENT" && args[1] == "TRACKING" && args[2] == "ON":
		f.redirects[c] = args[4]
		return "+OK\r\n"
	case args[0] == "CLIENT" && args[1] == "CACHING" && f.redirects[c] == "":
		return "-ERR CLIENT CACHING can be called only when the client is in tracking mode\r\n"
	case args[0] == "SUBSCRIBE" || args[0] == "UNSUBSCRIBE":
		f.redirects[c] = "itself"
		return "*3\r\n" + bulk(strings.ToLower(args[0])) + bulk(args[1]) + ":1\r\n"
	case args[0] == "PING" && f.redirects[c] == "itself":
		return "*2\r\n" + bulk("pong") + bulk("")
	}
	return likeRedis(c, args)
}

// count says how many of the commands that have to do with tracking contain the text.
func (f *earFake) count(text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, cmd := range f.asked {
		if strings.Contains(cmd, text) {
			n++
		}
	}
	return n
}
