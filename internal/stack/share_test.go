package stack_test

import (
	"fmt"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// What stands in the place of tokens.
const (
	readers = "|readers"
	wanted  = "|wanted"
)

// shares returns the script of readers that is named by its source or its hash; nil if it is none.
func (s *server) shares(named string) *wire.Script {
	for _, name := range []string{"share_acquire", "share_extend", "share_release", "share_look"} {
		if script := scripts[name]; named == script.Source || named == script.Hash {
			return script
		}
	}
	return nil
}

// share runs a script of readers.
func (s *server) share(p *peer, args []string) string {
	script := s.shares(args[1])
	if s.scripts[script.Hash] = s.scripts[script.Hash] || args[0] == "EVAL"; !s.scripts[script.Hash] {
		return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	}
	n, err := strconv.Atoi(args[2])
	if err != nil || n < 2 || len(args) < 5+n || args[3+n] != readers {
		s.run.violate("server %d was sent the wrong arguments by %v: %q", s.number, p.from, args[2:])
		return "-ERR wrong number of arguments\r\n"
	}
	key, token, rest := args[3], args[4+n], args[5+n:]
	defer s.observedLocked(p, key) // it is read last
	e, held := s.getLocked(key)
	if !held {
		delete(s.sharers, key)
	}
	if script == scripts["share_look"] {
		s.observedLocked(p, args[5])
		return s.look(p, key, args[5], token)
	}
	s.checkOwner(p, token)
	if script == scripts["share_acquire"] {
		if s.owned[token] {
			s.run.violate("server %d was asked twice to acquire for %s", s.number, token)
		}
		s.owned[token] = true
	}
	_, in := s.sharers[key][token]
	switch _, asked := s.getLocked("{" + key + "}:wanted"); {
	case held && e.token != readers:
		return ":-1\r\n"
	case script == scripts["share_release"]:
		return s.leave(p, key, token, in)
	case script == scripts["share_acquire"] && asked:
		return ":0\r\n"
	case script == scripts["share_acquire"] && in:
		return ":-1\r\n"
	}
	in = in && time.Now().Before(s.sharers[key][token])
	return s.stay(p, key, token, s.millis(rest[0]), script == scripts["share_acquire"], in)
}

// stay lets a reader in, or gives it a longer lease.
func (s *server) stay(p *peer, key, token string, ttl time.Duration, acquires, in bool) string {
	if s.sharers[key] == nil {
		s.sharers[key] = map[string]time.Time{}
	}
	if ends := time.Now().Add(ttl); ends.After(s.sharers[key][token]) {
		s.sharers[key][token] = ends
	}
	changed, last := 0, s.lastOf(key)
	if e, held := s.getLocked(key); !held || e.ends.Before(last) {
		s.keys[key] = entry{readers, last.Add(time.Until(last) / 4)}
		s.changedLocked(p, key)
		changed = 1
	}
	switch {
	case acquires:
		return fmt.Sprintf(":%d\r\n", 1+changed)
	case in:
		return fmt.Sprintf(":%d\r\n", 3-2*changed)
	}
	return fmt.Sprintf(":%d\r\n", 4-2*changed)
}

// leave takes a reader out.
func (s *server) leave(p *peer, key, token string, in bool) string {
	ended := !time.Now().Before(s.sharers[key][token])
	delete(s.sharers[key], token)
	switch {
	case !in:
		return ":0\r\n"
	case len(s.sharing(key)) == 0:
		delete(s.keys, key)
		s.changedLocked(p, key)
	case time.Until(s.keys[key].ends) > 2*time.Until(s.lastOf(key)):
		s.keys[key] = entry{readers, s.lastOf(key)}
		s.changedLocked(p, key)
	case !ended:
		return ":2\r\n"
	}
	if ended {
		return ":0\r\n"
	}
	return ":1\r\n"
}

// look tells what a key holds, and about one of those who share it.
func (s *server) look(p *peer, key, asked, token string) string {
	e, held := s.getLocked(key)
	w, waits := s.getLocked(asked)
	if !held && !waits {
		return p.null()
	}
	value, left, kept, own := p.null(), int64(-2), int64(-2), int64(-1)
	if held {
		value, left = fmt.Sprintf("$%d\r\n%s\r\n", len(e.token), e.token), time.Until(e.ends).Milliseconds()
	}
	if waits {
		kept = time.Until(w.ends).Milliseconds()
	}
	if ends, in := s.sharers[key][token]; in && e.token == readers && time.Now().Before(ends) {
		own = time.Until(ends).Milliseconds()
	}
	return fmt.Sprintf("*7\r\n%s:%d\r\n:%d\r\n:0\r\n:-1\r\n:%d\r\n:-1\r\n", value, left, kept, own)
}

// sharing returns the tokens of those who share a key, and lastOf when the last of their leases ends.
func (s *server) sharing(key string) (tokens []string) {
	for token, ends := range s.sharers[key] {
		if time.Now().Before(ends) {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

func (s *server) lastOf(key string) (last time.Time) {
	for _, ends := range s.sharers[key] {
		if ends.After(last) {
			last = ends
		}
	}
	return last
}
