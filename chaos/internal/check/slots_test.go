package check_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// slot makes a call one for one of two slots.
func slot(o *history.Op) { o.Slots = 2 }
func five(o *history.Op) { o.Slots = 5 }

func TestSlots_AreNoMoreThanThereAre(t *testing.T) {
	tooMany := []string{check.TooManySlots}
	two := func(s *story) { // from 20 to 1000
		s.got("x", 0, 10, slot)
		s.got("y", 15, 20, slot)
		s.proof("x", 1000)
		s.proof("y", 1000)
	}
	cases{
		"two of two": {tell: two},
		"three of two": {breaks: tooMany, tell: func(s *story) {
			two(s)
			s.got("z", 990, 999, slot)
			s.proof("z", 1001)
		}},
		"one after another": {tell: func(s *story) {
			two(s)
			s.got("z", 990, 1000, slot)
			s.proof("z", 2000)
			s.got("v", 990, 1000, slot)
			s.proof("v", 2000)
		}},
		"three of three": {tell: func(s *story) {
			two(s)
			s.got("z", 500, 510, func(o *history.Op) { o.Slots = 3 })
			s.proof("z", 1000)
		}},
		"two of which one has two handles": {tell: func(s *story) {
			two(s)
			s.got("x2", 30, 40, slot, within("x"))
			s.proof("x2", 900)
		}},
		"three of which one has two handles": {breaks: tooMany, tell: func(s *story) {
			two(s)
			s.got("x2", 30, 40, slot, within("x"))
			s.proof("x2", 900)
			s.got("z", 500, 510, slot)
			s.proof("z", 800)
		}},
		"one that was passed to another process": {tell: func(s *story) {
			two(s)
			s.of("x", history.Detach, 1000, 1010, token("t"))
			s.add(history.Op{Kind: history.Attach, Client: "z", Hold: "z", Token: "t", Slots: 2, Renews: true}, 1020, 1030)
			s.proof("z", 1500)
			s.got("v", 1010, 1040, slot)
			s.proof("v", 1500)
		}},
		"a nil from Unlock while two others had theirs": {breaks: []string{check.UnlockWasWrong}, tell: func(s *story) {
			two(s)
			s.got("z", 5, 12, slot)
			s.unlock("z", 500, 510)
		}},
		"got while two others had theirs": {breaks: []string{check.NoOrder}, tell: func(s *story) {
			two(s)
			s.got("z", 30, 40, slot)
		}},
		"got when one was over": {tell: func(s *story) {
			two(s)
			s.got("z", 30, 1001, slot)
		}},
		"got while one followed the other": {breaks: []string{check.NoOrder}, tell: func(s *story) {
			s.got("x", 0, 10, slot)
			s.proof("x", 1000)
			s.got("y", 0, 10, slot)
			s.proof("y", 500)
			s.got("v", 400, 500, slot)
			s.proof("v", 1000)
			s.got("z", 30, 900, slot)
		}},
		"got between two handles on one": {tell: func(s *story) {
			s.got("x", 0, 10, slot)
			s.proof("x", 1000)
			s.got("x2", 20, 30, slot, within("x"))
			s.proof("x2", 900)
			s.got("z", 100, 200, slot)
		}},
		"a writer within": {breaks: twoHolders, tell: func(s *story) {
			two(s)
			s.got("w", 30, 40)
			s.proof("w", 50)
		}},
		"within the hold of a writer": {breaks: []string{check.NoOrder}, tell: func(s *story) {
			s.got("w", 0, 10)
			s.proof("w", 1000)
			s.got("x", 15, 20, slot)
		}},
		"beside a reader": {breaks: twoHolders, tell: func(s *story) {
			s.got("x", 0, 10, slot)
			s.proof("x", 1000)
			s.got("y", 15, 20, reads)
			s.proof("y", 30)
		}},
		"with a fence": {rules: fenced, breaks: []string{check.FenceChanged}, tell: func(s *story) {
			s.got("x", 0, 10, slot, fence(1))
		}},
	}.run(t)
}

func TestSlots_AreRefusedDueToOthers(t *testing.T) {
	refused := func(s *story) { s.call(history.Taken, 10000, 10010, slot) }
	one := func(s *story) {
		s.got("x", 9000, 9010, slot)
		s.unlock("x", 11000, 11010)
	}
	cases{
		"by nobody": {breaks: []string{check.TakenByNobody}, tell: refused},
		"by one of two": {breaks: []string{check.TakenByNobody}, tell: func(s *story) {
			refused(s)
			one(s)
		}},
		"by two of two": {tell: func(s *story) {
			refused(s)
			one(s)
			s.got("y", 9000, 9010, slot)
			s.unlock("y", 9840, 9850)
		}},
		"by another call": {tell: func(s *story) {
			refused(s)
			s.call(history.Canceled, 9800, 9850, slot)
		}},
		"by another call that got one": {tell: func(s *story) {
			refused(s)
			s.got("y", 9700, 9750, slot)
		}},
		"by a writer that waits": {tell: func(s *story) {
			refused(s)
			s.call(history.Canceled, 9000, 9850, way(history.Waiting))
		}},
	}.run(t)
}

func TestSlots_AreNotWaitedForWhileOneIsFree(t *testing.T) {
	waits := func(s *story) { s.call(history.Canceled, 20, 4000, slot, way(history.Waiting)) }
	one := func(s *story, hold string) {
		s.got(hold, 0, 10, slot, renews)
		s.unlock(hold, 5000, 5010)
	}
	cases{
		"one of two is free": {breaks: []string{check.WaiterSlept}, tell: func(s *story) {
			waits(s)
			one(s, "x")
		}},
		"none is free": {tell: func(s *story) {
			waits(s)
			one(s, "x")
			one(s, "y")
		}},
		"one is free for a moment": {tell: func(s *story) {
			waits(s)
			one(s, "x")
			s.got("y", 1000, 1010, slot)
			s.unlock("y", 1100, 1110)
		}},
		"behind a writer that waits": {tell: func(s *story) {
			waits(s)
			one(s, "x")
			s.call(history.Canceled, 15, 4000, way(history.Waiting))
		}},
		"a later one is before": {tell: func(s *story) {
			s.got("x", 0, 900, slot)
			s.got("y", 400, 500, slot)
		}},
	}.run(t)
}

func TestSlots_OfSeveralLimitsTheLowestHolds(t *testing.T) {
	cases{
		"a slot is free, but not for another": {tell: func(s *story) {
			s.got("x", 0, 10, five, renews)
			s.got("y", 0, 10, five, renews)
			s.call(history.Canceled, 15, 4000, slot, way(history.Waiting))
			s.call(history.Canceled, 20, 4000, five, way(history.Waiting))
			s.unlock("x", 5000, 5010)
			s.unlock("y", 5000, 5010)
		}},
		"a slot is free for all": {breaks: []string{check.WaiterSlept}, tell: func(s *story) {
			s.got("x", 0, 10, five, renews)
			s.call(history.Canceled, 15, 4000, slot, way(history.Waiting))
			s.unlock("x", 5000, 5010)
		}},
		"as many as the highest limit": {tell: func(s *story) {
			s.got("x", 0, 10, five)
			s.got("y", 0, 10, five)
			s.got("z", 0, 10, five)
			s.proof("x", 100)
			s.proof("y", 100)
			s.proof("z", 100)
			s.call(history.Taken, 60, 70, slot)
		}},
	}.run(t)
}
