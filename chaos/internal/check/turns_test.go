package check_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// goBy adds locks that others get one after the other, in that process.
func (s *story) goBy(n int, from int64, locker string, changes ...change) {
	for i := range int64(n) {
		changes := append(changes, client(locker), func(o *history.Op) { o.Locker = locker })
		x := s.add(history.Op{Kind: history.Acquire, Way: history.Waiting, TTL: 3e9}, from+10*i, from+10*i+5, changes...)
		x.Hold = locker + x.Name + string(rune('A'+i))
		s.add(history.Op{Kind: history.Unlock, Hold: x.Hold}, from+10*i+6, from+10*i+7, append(changes, named(x.Name))...)
	}
}

func TestPassed(t *testing.T) {
	over := []string{check.PassedOver}
	waits := func(s *story, changes ...change) {
		s.call(history.Canceled, 0, 3000, append(changes, way(history.Waiting))...)
	}
	cases{ // of two processes
		"later calls have their turns": {tell: func(s *story) {
			waits(s)
			s.goBy(36, 400, "p")
		}},
		"later calls have more": {breaks: over, tell: func(s *story) {
			waits(s)
			s.goBy(37, 400, "p")
		}},
		"also by TryLock": {breaks: over, tell: func(s *story) {
			waits(s)
			s.goBy(37, 400, "p", way(history.Trying))
		}},
		"at about the same time": {tell: func(s *story) {
			waits(s)
			s.goBy(37, 300, "p")
		}},
		"a call that does not wait": {tell: func(s *story) {
			s.call(history.Canceled, 0, 3000)
			s.goBy(37, 400, "p")
		}},
		"behind six others": {tell: func(s *story) {
			for range 6 {
				s.add(history.Op{Kind: history.Acquire, Client: "caller", Locker: "l", Err: history.Canceled}, 5, 3000)
			}
			s.call(history.Canceled, 10, 3000, way(history.Waiting))
			s.goBy(37, 400, "p")
		}},
		"a reader beside writers": {tell: func(s *story) {
			waits(s, reads)
			s.goBy(54, 400, "p")
		}},
		"a reader beside writers, for too long": {breaks: over, tell: func(s *story) {
			waits(s, reads)
			s.goBy(55, 400, "p")
		}},
		"one who knows of fewer slots": {tell: func(s *story) {
			waits(s, slot)
			s.goBy(48, 400, "p", five)
		}},
		"one who knows of fewer slots, for too long": {breaks: over, tell: func(s *story) {
			waits(s, slot)
			s.goBy(49, 400, "p", five)
		}},
		"a writer beside a reader": {tell: func(s *story) {
			waits(s)
			s.goBy(42, 400, "p", reads)
		}},
		"a writer beside a reader, for too long": {breaks: over, tell: func(s *story) {
			waits(s)
			s.goBy(43, 400, "p", reads)
		}},
		"the process stood still": {tell: func(s *story) {
			waits(s)
			s.goBy(37, 400, "p")
			s.note(history.Stall, "caller", 500, 510)
		}},
		"a fault": {tell: func(s *story) {
			waits(s)
			s.goBy(37, 400, "p")
			s.fault("freeze", 20000, 20001)
		}},
		"a set": {tell: func(s *story) {
			s.set(0, 3000)
			s.goBy(80, 10, "p")
			s.goBy(81, 10, "p", named("b"))
		}},
		"a set, for too long": {breaks: over, tell: func(s *story) {
			s.set(0, 3000)
			s.goBy(81, 10, "p")
			s.goBy(81, 10, "p", named("b"))
		}},
	}.run(t)
}
