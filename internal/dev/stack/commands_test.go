package stack_test

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/wire"
)

var scripts = form.Scripts

// execute carries a command out. A command that no lock program sends is a violation.
func (s *server) execute(p *peer, args []string) string {
	reply, ok := s.track(p, args)
	if ok {
		return reply
	}
	defer func() { p.caching = false }()
	switch {
	case slices.Equal(args, []string{"INFO", "server"}):
		info := fmt.Sprintf("# Server\r\nredis_version:7.4.1\r\nrun_id:server-%d-%d\r\n", s.number, s.runs)
		return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
	case slices.Equal(args, []string{"INFO", "replication"}):
		const info = "# Replication\r\nrole:master\r\n"
		return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
	case slices.Equal(args, []string{"CLIENT", "ID"}):
		return fmt.Sprintf(":%d\r\n", p.number)
	case len(args) == 4 && args[0] == "CLIENT" && args[1] == "KILL" && args[2] == "ID":
		return s.kill(p, args[3])
	case slices.Equal(args, []string{"PING"}):
		return "+PONG\r\n"
	case len(args) == 6 && args[0] == "SET" && args[3] == "NX" && args[4] == "PX":
		return s.set(p, args[1], args[2], args[5])
	case len(args) >= 4 && args[0] == "EVAL" && args[1] == scripts["observe"].Source && args[2] == "1":
		s.scripts[scripts["observe"].Hash] = true
		s.observedLocked(p, args[3])
		return s.observe(p, args[3])
	case len(args) == 4 && args[0] == "EVALSHA" && args[1] == scripts["observe"].Hash: // after a lost acquire
		if !s.scripts[args[1]] {
			return noScript
		}
		return s.observe(p, args[3])
	case len(args) == 8 && runs(args, "first_acquire") != nil && args[5] == "NX" && args[6] == "PX":
		if !s.knows(args, runs(args, "first_acquire")) {
			return noScript
		}
		return s.set(p, args[3], args[4], args[7])
	case len(args) >= 5 && runs(args, "all_acquire", "first_all_acquire") != nil:
		return s.setAll(p, args)
	case len(args) >= 5 && runs(args, sharedBy...) != nil:
		return s.share(p, args)
	case len(args) == 6 && runs(args, "share_want") != nil:
		return s.want(p, args)
	case len(args) == 3 && args[0] == "ZREM":
		return s.unwant(p, args[1], args[2])
	case len(args) >= 5 && (args[0] == "EVAL" || args[0] == "EVALSHA") && args[2] == "1":
		return s.eval(p, args)
	}
	s.run.violate("server %d was sent %q by %v", s.number, args, p.from)
	return "-ERR unknown command\r\n"
}

const noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"

// runs returns which of some scripts a command runs; nil if none.
func runs(args []string, names ...string) *wire.Script {
	for _, name := range names {
		if script := scripts[name]; args[0] == "EVAL" && args[1] == script.Source || args[0] == "EVALSHA" && args[1] == script.Hash {
			return script
		}
	}
	return nil
}

// knows reports whether the server knows a script that it is to run: it learns it by its source.
func (s *server) knows(args []string, script *wire.Script) bool {
	s.scripts[script.Hash] = s.scripts[script.Hash] || args[0] == "EVAL"
	return s.scripts[script.Hash]
}

// kill ends a connection: what the server has not read of it is never carried out.
func (s *server) kill(p *peer, id string) string {
	if !s.run.plan.permits {
		return "-NOPERM this user has no permissions to run the 'client|kill' command\r\n"
	}
	number, err := strconv.ParseInt(id, 10, 64)
	victim := s.peers[number]
	if err != nil || victim == nil {
		return ":0\r\n"
	}
	if victim.from != p.from {
		s.run.violate("%v had a connection of %v killed", p.from, victim.from)
	}
	s.run.count("killed")
	victim.killed = true
	victim.reset()
	s.change.Broadcast()
	return ":1\r\n"
}

func (s *server) set(p *peer, key, token, millis string) string {
	s.checkOwner(p, token)
	ttl := s.millis(millis)
	if s.owned[token] {
		s.run.violate("server %d was asked twice to acquire for %s", s.number, token)
	}
	s.owned[token] = true
	if _, taken := s.getLocked(key); taken {
		return p.null()
	}
	s.keys[key] = entry{token, time.Now().Add(ttl)}
	s.changedLocked(p, key)
	return "+OK\r\n"
}

// setAll sets several keys, or none.
func (s *server) setAll(p *peer, args []string) string {
	if !s.knows(args, runs(args, "all_acquire", "first_all_acquire")) {
		return noScript
	}
	n, err := strconv.Atoi(args[2])
	if err != nil || n < 1 || len(args) != 5+n {
		s.run.violate("server %d was sent the wrong arguments by %v: %q", s.number, p.from, args[2:])
		return "-ERR wrong number of arguments\r\n"
	}
	keys, token, ttl := args[3:3+n], args[3+n], s.millis(args[4+n])
	s.checkOwner(p, token)
	if s.owned[token] {
		s.run.violate("server %d was asked twice to acquire for %s", s.number, token)
	}
	s.owned[token] = true
	taken, places := 0, ""
	for i, key := range keys {
		if _, is := s.getLocked(key); is {
			taken++
			places += fmt.Sprintf(":%d\r\n", -1-i)
		}
	}
	if taken > 0 {
		return fmt.Sprintf("*%d\r\n%s", taken, places)
	}
	for _, key := range keys {
		s.keys[key] = entry{token, time.Now().Add(ttl)}
		s.changedLocked(p, key)
	}
	return ":1\r\n"
}

// observe returns what a key holds and its TTL.
func (s *server) observe(p *peer, key string) string {
	e, ok := s.getLocked(key)
	if !ok {
		return p.null()
	}
	return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n:%d\r\n", len(e.token), e.token, time.Until(e.ends).Milliseconds())
}

// eval runs the script of a release or an extension.
func (s *server) eval(p *peer, args []string) string {
	script := runs(args, "release", "extend")
	switch {
	case script == nil:
		s.run.violate("server %d was sent a script that it does not know by %v: %.40q", s.number, p.from, args[1])
		return "-ERR unknown script\r\n"
	case !s.knows(args, script):
		return noScript
	}
	key, token := args[3], args[4]
	s.checkOwner(p, token)
	defer s.observedLocked(p, key) // it is read last
	e, ok := s.getLocked(key)
	switch {
	case !ok && script == scripts["extend"] && len(args) == 6:
		s.keys[key] = entry{token, time.Now().Add(s.millis(args[5]))}
		s.changedLocked(p, key)
		return ":2\r\n"
	case !ok:
		return ":0\r\n"
	case e.token != token:
		return ":-1\r\n"
	case script == scripts["release"] && len(args) == 5:
		delete(s.keys, key)
		s.changedLocked(p, key)
		return ":1\r\n"
	case script == scripts["extend"] && len(args) == 6:
		return s.extend(p, key, e, args[5])
	}
	s.run.violate("server %d was sent the wrong arguments by %v: %q", s.number, p.from, args[3:])
	return "-ERR wrong number of arguments\r\n"
}

func (s *server) extend(p *peer, key string, e entry, millis string) string {
	ends := time.Now().Add(s.millis(millis))
	id := fmt.Sprintf("%s %s %v", e.token, millis, p.from) // each has a TTL of its own, see client.extend, but those of renewals
	_, renewed := s.run.renewed.Load(e.token)
	if renewed = renewed || s.millis(millis) == s.run.plan.ttl; s.longer[id] && !renewed {
		s.run.violate("server %d carried the extension of %s by %s ms out twice", s.number, e.token, millis)
	}
	s.longer[id] = true
	if ends.Before(e.ends) {
		return ":1\r\n"
	}
	s.keys[key] = entry{e.token, ends}
	s.changedLocked(p, key)
	return ":1\r\n"
}

func (s *server) millis(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		s.run.violate("server %d was sent the TTL %q", s.number, text)
	}
	return time.Duration(n) * time.Millisecond
}

// checkOwner checks that a command is of the client that drew its token, unless that has left the lock to another.
func (s *server) checkOwner(p *peer, token string) {
	if !p.from.drew(token) && !s.run.isLeft(token) {
		s.run.violate("server %d was sent the token %s by %v", s.number, token, p.from)
	}
}
