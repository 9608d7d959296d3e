package stack_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// invalidations is the channel on which a server tells of changes.
const invalidations = "__redis__:invalidate"

// tells says whether a server tells of changes at all.
func (s *server) tells() bool { return s.run.plan.permits || s.number%2 == 0 }

// hear carries out what has to do with being told of changes; ok is false for other commands.
func (s *server) hear(p *peer, args []string) (reply string, ok bool) {
	words := strings.Join(args, " ")
	switch {
	case len(args) == 2 && args[0] == "SUBSCRIBE":
		if !s.tells() {
			return "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n", true
		}
		p.channels[args[1]] = true
		return subscription("subscribe", args[1], len(p.channels)), true
	case len(args) == 2 && args[0] == "UNSUBSCRIBE":
		delete(p.channels, args[1])
		return subscription("unsubscribe", args[1], len(p.channels)), true
	case words == "PING" && len(p.channels) > 0:
		return "*2\r\n$4\r\npong\r\n$0\r\n\r\n", true
	case len(args) == 6 && slices.Equal(args[:4], []string{"CLIENT", "TRACKING", "ON", "REDIRECT"}) && args[5] == "OPTIN":
		id, err := strconv.ParseInt(args[4], 10, 64)
		if err != nil || s.peers[id] == nil {
			return "-ERR The client ID you want redirect to does not exist\r\n", true
		}
		p.tellsTo = id
		return "+OK\r\n", true
	case words == "CLIENT TRACKING OFF":
		p.tellsTo, p.caching = 0, false
		return "+OK\r\n", true
	case words == "CLIENT CACHING YES":
		if p.tellsTo == 0 {
			return "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled\r\n", true
		}
		p.caching = true
		return "+OK\r\n", true
	}
	return "", false
}

// lookedAt has the next change to a key told, if the connection wants that.
func (s *server) lookedAt(p *peer, key string) {
	if p.tellsTo == 0 || !p.caching {
		return
	}
	s.run.count("watched")
	if s.watched[key] == nil {
		s.watched[key] = map[int64]bool{}
	}
	s.watched[key][p.number] = true
}

// changedLocked tells of a change to a key, once. That a key has expired is told when somebody asks for it.
func (s *server) changedLocked(key string) {
	for number := range s.watched[key] {
		p := s.peers[number]
		if p == nil || s.peers[p.tellsTo] == nil || !s.peers[p.tellsTo].channels[invalidations] {
			continue
		}
		s.run.count("told")
		s.tell(s.peers[p.tellsTo], fmt.Sprintf("*3\r\n$7\r\nmessage\r\n%s*1\r\n%s", bulk(invalidations), bulk(key)))
	}
	delete(s.watched, key)
}

// tell sends something that is no reply.
func (s *server) tell(p *peer, message string) {
	if p.killed || p.mute {
		return
	}
	s.run.serving.Go(func() { p.send(message) })
}

// send writes a reply or message as a whole.
func (p *peer) send(text string) bool {
	p.sending <- struct{}{}
	defer func() { <-p.sending }()
	_, err := p.Write([]byte(text))
	return err == nil
}

func subscription(kind, channel string, n int) string {
	return fmt.Sprintf("*3\r\n%s%s:%d\r\n", bulk(kind), bulk(channel), n)
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
