package stack_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// What stands in the place of tokens.
const (
	readers = "|shared"
	slots   = "|slots"
)

// sharedBy are the scripts of those who share a key.
var sharedBy = []string{"share_acquire", "share_extend", "share_release", "share_look"}

// share runs a script of readers or slots.
func (s *server) share(p *peer, args []string) string {
	script := runs(args, sharedBy...)
	if !s.knows(args, script) {
		return noScript
	}
	n, err := strconv.Atoi(args[2])
	if err != nil || n < 2 || len(args) < 5+n || args[3+n] != readers && args[3+n] != slots {
		s.run.violate("server %d was sent the wrong arguments by %v: %q", s.number, p.from, args[2:])
		return "-ERR wrong number of arguments\r\n"
	}
	q := sharing{key: args[3], mark: args[3+n], rest: args[4+n:]}
	if asks := script == scripts["share_acquire"] || script == scripts["share_look"]; asks {
		q.passes, q.rest = q.rest[0] != "", q.rest[1:]
	}
	q.token, q.rest = q.rest[0], q.rest[1:]
	defer s.observedLocked(p, q.key) // it is read last
	e, held := s.getLocked(q.key)
	if !held {
		s.sharers[q.key], s.slots[q.key] = map[string]time.Time{}, map[string]int{}
	}
	if script == scripts["share_look"] {
		if q.token == "" {
			s.observedLocked(p, args[5])
		}
		return s.look(p, &q)
	}
	s.checkOwner(p, q.token)
	if held && e.token != q.mark {
		return ":-1\r\n"
	}
	for token, ends := range s.sharers[q.key] {
		if !time.Now().Before(ends) && token != q.token {
			delete(s.sharers[q.key], token)
			delete(s.slots[q.key], token)
		}
	}
	switch script {
	case scripts["share_acquire"]:
		return s.enter(p, &q)
	case scripts["share_release"]:
		return s.leave(p, &q)
	}
	return s.stay(p, &q)
}

// sharing is a script of one who shares a key, or wants to.
type sharing struct {
	key, mark, token string
	passes           bool
	rest             []string
}

// want adds the entry of one that waits.
func (s *server) want(p *peer, args []string) string {
	if !s.knows(args, scripts["share_want"]) {
		return noScript
	}
	key, entered, ends := args[3], args[4], time.Now().Add(s.millis(args[5]))
	s.checkProcess(p, entered)
	if _, held := s.getLocked(key); !held {
		s.sharers[key] = map[string]time.Time{}
	}
	s.sharers[key][entered] = ends
	s.keys[key] = entry{"entries", ends}
	s.changedLocked(p, key)
	return ":1\r\n"
}

// unwant removes the entry of one that waits.
func (s *server) unwant(p *peer, key, entered string) string {
	s.checkProcess(p, entered)
	e, held := s.getLocked(key)
	if _, in := s.sharers[key][entered]; !in || !held {
		return ":0\r\n"
	}
	delete(s.sharers[key], entered)
	if s.keys[key] = e; len(s.sharers[key]) == 0 {
		delete(s.keys, key)
	}
	s.changedLocked(p, key)
	return ":1\r\n"
}

// checkProcess checks that an entry is that of who sends it.
func (s *server) checkProcess(p *peer, entered string) {
	if of := strings.Split(entered, "|"); len(of) < 2 || of[1] != p.from.owner() {
		s.run.violate("server %d was sent the entry %s by %v", s.number, entered, p.from)
	}
}

// waits returns the entry with the lowest limit, when it ends, and the limit.
func (s *server) waits(q *sharing) (lowest string, ends time.Time, limit int) {
	key := "{" + q.key + "}:wanted"
	if _, held := s.getLocked(key); !held {
		return "", ends, math.MaxInt
	}
	limit = math.MaxInt
	for _, entered := range s.sharing(key) {
		text, kind, _ := strings.Cut(entered, "|")
		_, kind, _ = strings.Cut(kind, "|")
		if n := s.natural(text); n < limit && (n > 0 || !q.passes && "|"+kind != q.mark) {
			lowest, ends, limit = entered, s.sharers[key][entered], n
		}
	}
	return lowest, ends, limit
}

// enter lets one in.
func (s *server) enter(p *peer, q *sharing) string {
	if s.owned[q.token] {
		s.run.violate("server %d was asked twice to acquire for %s", s.number, q.token)
	}
	s.owned[q.token] = true
	slot := 0
	_, _, most := s.waits(q)
	if most == 0 {
		return ":0\r\n"
	}
	if q.mark == slots {
		limit := s.natural(q.rest[1])
		switch in := len(s.slots[q.key]); {
		case in >= limit:
			return ":-4\r\n"
		case in >= most:
			return ":0\r\n"
		}
		for slot = s.natural(q.rest[2]); s.taken(q.key, slot); {
			slot = (slot + 1) % limit
		}
		s.slots[q.key][q.token] = slot
	}
	return fmt.Sprintf(":%d\r\n", 1+2*slot+s.keep(p, q))
}

func (s *server) taken(key string, slot int) bool {
	for _, taken := range s.slots[key] {
		if taken == slot {
			return true
		}
	}
	return false
}

func (s *server) natural(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		s.run.violate("server %d was sent the number %q", s.number, text)
	}
	return n
}

// stay gives one a longer lease, or lets it in again.
func (s *server) stay(p *peer, q *sharing) string {
	in := time.Now().Before(s.sharers[q.key][q.token])
	if q.mark == slots {
		at, has := s.slots[q.key][q.token]
		slot := s.natural(q.rest[1])
		if in = in && has && at == slot; !in && s.taken(q.key, slot) {
			return ":-1\r\n"
		}
		s.slots[q.key][q.token] = slot
	}
	changed := s.keep(p, q)
	if in {
		return fmt.Sprintf(":%d\r\n", 3-2*changed)
	}
	return fmt.Sprintf(":%d\r\n", 4-2*changed)
}

// keep has the key last for as long as those who share it, and returns 1 if it was changed.
func (s *server) keep(p *peer, q *sharing) (changed int) {
	if ends := time.Now().Add(s.millis(q.rest[0])); ends.After(s.sharers[q.key][q.token]) {
		s.sharers[q.key][q.token] = ends
	}
	last := s.lastOf(q.key)
	if e, held := s.getLocked(q.key); held && !e.ends.Before(last) {
		return 0
	}
	s.keys[q.key] = entry{q.mark, last.Add(time.Until(last) / 4)}
	s.changedLocked(p, q.key)
	return 1
}

// leave takes one out.
func (s *server) leave(p *peer, q *sharing) string {
	ends, in := s.sharers[q.key][q.token]
	if q.mark == slots && len(q.rest) > 0 {
		at, has := s.slots[q.key][q.token]
		in = in && has && at == s.natural(q.rest[0])
	}
	if !in {
		return ":0\r\n"
	}
	delete(s.sharers[q.key], q.token)
	delete(s.slots[q.key], q.token)
	ended := !time.Now().Before(ends)
	switch last := s.lastOf(q.key); {
	case len(s.sharing(q.key)) == 0:
		delete(s.keys, q.key)
		s.changedLocked(p, q.key)
	case time.Until(s.keys[q.key].ends) > 2*time.Until(last):
		s.keys[q.key] = entry{q.mark, last}
		s.changedLocked(p, q.key)
	case q.mark == slots:
		s.changedLocked(p, q.key)
	case !ended:
		return ":2\r\n"
	}
	if ended {
		return ":0\r\n"
	}
	return ":1\r\n"
}

// look tells what a key holds, and about one of those who share it.
func (s *server) look(p *peer, q *sharing) string {
	e, held := s.getLocked(q.key)
	asked, until := "", time.Now()
	if q.token == "" {
		asked, until, _ = s.waits(q)
	}
	if !held && asked == "" {
		return p.null()
	}
	value, left, entered, own, first, slot := p.null(), int64(-2), p.null(), int64(-1), int64(-1), -1
	if held {
		value, left = fmt.Sprintf("$%d\r\n%s\r\n", len(e.token), e.token), time.Until(e.ends).Milliseconds()
	}
	kept := int64(0)
	if asked != "" {
		entered, kept = fmt.Sprintf("$%d\r\n%s\r\n", len(asked), asked), time.Until(until).Milliseconds()
	}
	in := s.sharing(q.key)
	for _, token := range in {
		if ms := time.Until(s.sharers[q.key][token]).Milliseconds(); first < 0 || ms < first {
			first = ms
		}
		if token == q.token && e.token == q.mark {
			own = time.Until(s.sharers[q.key][token]).Milliseconds()
			if at, has := s.slots[q.key][token]; has {
				slot = at
			}
		}
	}
	return fmt.Sprintf("*8\r\n%s:%d\r\n%s:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n", value, left, entered, kept, len(in), first, own, slot)
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
