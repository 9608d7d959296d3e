package check_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// set adds a call for the locks a and b, which does not get them.
func (s *story) set(from, to int64, changes ...change) {
	for _, name := range []string{"a", "b"} {
		s.add(history.Op{
			Kind: history.Acquire, Client: "set", Locker: "l", Way: history.Together, Names: []string{"a", "b"}, TTL: 4e9, Err: history.Canceled,
		}, from, to, append(changes, named(name))...)
	}
}

func named(name string) change { return func(o *history.Op) { o.Name = name } }

// hasB adds a hold of the lock b.
func (s *story) hasB(from, to int64) {
	s.got("job", from, from+10, named("b"))
	s.unlock("job", to-10, to).Name = "b"
}

func TestSets_KeepALockForTheirPatience(t *testing.T) {
	kept := []string{check.SetKept}
	waits := func(s *story, from, to int64) { s.call(history.Canceled, from, to, way(history.Waiting)) }
	// A set may have it for 1.3 s at first, and then another takes 3.6 s to notice that it is free. Sets may keep it from each other for 1.5 s each.
	cases{
		"a lock is free in time": {tell: func(s *story) {
			s.set(0, 9000)
			waits(s, 0, 6400)
		}},
		"a lock is not free in time": {breaks: kept, tell: func(s *story) {
			s.set(0, 9000)
			waits(s, 0, 6401)
		}},
		"another name changes hands": {tell: func(s *story) {
			s.set(0, 9000)
			s.hasB(10, 3000)
			waits(s, 0, 9000)
		}},
		"another name has changed hands": {breaks: kept, tell: func(s *story) {
			s.set(0, 9700)
			s.hasB(10, 3000)
			waits(s, 0, 9401)
		}},
		"two sets": {tell: func(s *story) {
			s.set(0, 9000)
			s.set(0, 9000, client("other"))
			waits(s, 0, 7900)
		}},
		"two sets, for too long": {breaks: kept, tell: func(s *story) {
			s.set(0, 9000)
			s.set(0, 9000, client("other"))
			waits(s, 0, 7901)
		}},
		"a set that does not wait": {tell: func(s *story) {
			s.set(0, 9000, func(o *history.Op) { o.Names = nil })
			waits(s, 0, 9000)
		}},
		"a fault": {tell: func(s *story) {
			s.set(0, 9000)
			waits(s, 0, 9000)
			s.fault("freeze", 20000, 20001)
		}},
		"the process stood still for a moment": {breaks: kept, tell: func(s *story) {
			s.set(0, 9000)
			s.note(history.Stall, "set", 1000, 1299)
			waits(s, 0, 7000)
		}},
		"the process stood still": {tell: func(s *story) {
			s.set(0, 9000)
			s.note(history.Stall, "set", 1000, 1301)
			waits(s, 0, 9000)
		}},
		"who has it is in the way": {tell: func(s *story) {
			s.set(0, 9000)
			s.got("x", 10, 20, renews)
			s.unlock("x", 5000, 5010)
			waits(s, 0, 9000)
		}},
	}.run(t)
}
