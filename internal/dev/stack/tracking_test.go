package stack_test

import (
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// pushes reports whether a server permits RESP3, tracking and channels at all.
func (s *server) pushes() bool { return s.run.plan.permits || s.number%2 == 0 }

// track carries out the commands that are about pushes; ok is false for other commands.
func (s *server) track(p *peer, args []string) (reply string, ok bool) {
	words := strings.Join(args, " ")
	switch {
	case words == "HELLO 3":
		if !s.pushes() && s.number%3 == 1 {
			return "-NOPERM this user has no permissions to run the 'hello' command\r\n", true
		}
		p.resp3 = true
		return "%1\r\n" + testredis.Bulk("proto") + ":3\r\n", true
	case len(args) == 2 && args[0] == "SUBSCRIBE" && p.resp3:
		if !s.pushes() {
			return "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n", true
		}
		p.channels[args[1]] = true
		return subscription("subscribe", args[1], len(p.channels)), true
	case len(args) == 2 && args[0] == "UNSUBSCRIBE" && p.resp3:
		delete(p.channels, args[1])
		return subscription("unsubscribe", args[1], len(p.channels)), true
	case len(args) == 3 && args[0] == "PUBLISH":
		return s.publishLocked(args[1], args[2]), true
	case words == "CLIENT TRACKING ON OPTIN NOLOOP" && p.resp3:
		if !s.pushes() {
			return "-NOPERM this user has no permissions to run the 'client|tracking' command\r\n", true
		}
		p.tracks = true
		return "+OK\r\n", true
	case words == "CLIENT CACHING YES":
		if !p.tracks {
			return "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled\r\n", true
		}
		p.caching = true
		return "+OK\r\n", true
	}
	return "", false
}

// observedLocked has the next change to a key that was read reported, if the connection asked for that.
func (s *server) observedLocked(p *peer, key string) {
	if !p.caching {
		return
	}
	s.run.count("tracked")
	if s.tracked[key] == nil {
		s.tracked[key] = map[int64]bool{}
	}
	s.tracked[key][p.number] = true
}

// changedLocked reports a change to a key, once, but not to the connection that has made it. That a key has expired is reported
// when somebody asks for it.
func (s *server) changedLocked(by *peer, key string) {
	for number := range s.tracked[key] {
		if p := s.peers[number]; p != nil && p != by {
			s.run.count("invalidated")
			s.pushLocked(p, fmt.Sprintf(">2\r\n%s*1\r\n%s", testredis.Bulk("invalidate"), testredis.Bulk(key)))
		}
	}
	delete(s.tracked, key)
}

// pushLocked sends something that is no reply, in order with the replies.
func (s *server) pushLocked(p *peer, message string) {
	if p.killed || p.mute {
		return
	}
	p.putLocked(message)
}

// publishLocked sends a message to every connection that has subscribed to the channel.
func (s *server) publishLocked(channel, text string) (reply string) {
	receivers := 0
	for _, p := range s.peers {
		if p.channels[channel] {
			receivers++
			s.run.count("message")
			s.pushLocked(p, ">3\r\n"+testredis.Bulk("message")+testredis.Bulk(channel)+testredis.Bulk(text))
		}
	}
	return fmt.Sprintf(":%d\r\n", receivers)
}

func subscription(kind, channel string, n int) string {
	return fmt.Sprintf(">3\r\n%s%s:%d\r\n", testredis.Bulk(kind), testredis.Bulk(channel), n)
}

func (p *peer) null() string {
	if p.resp3 {
		return "_\r\n"
	}
	return "$-1\r\n"
}
