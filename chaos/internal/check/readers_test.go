package check_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

func TestReaders_ShareALockThatAWriterHasAlone(t *testing.T) {
	cases{
		"readers overlap": {tell: func(s *story) {
			s.got("x", 0, 10, reads)
			s.got("y", 15, 20, reads)
			s.proof("y", 30)
			s.proof("x", 1000)
			s.unlock("y", 1100, 1110)
		}},
		"a writer within the hold of a reader": {breaks: twoHolders, tell: func(s *story) {
			s.got("x", 0, 10, reads)
			s.proof("x", 1000)
			s.got("w", 15, 20)
			s.proof("w", 30)
		}},
		"a reader within the hold of a writer": {breaks: twoHolders, tell: func(s *story) {
			s.got("w", 0, 10)
			s.proof("w", 1000)
			s.got("x", 15, 20, reads)
			s.proof("x", 30)
		}},
		"a writer after one reader and within another": {breaks: twoHolders, tell: func(s *story) {
			s.got("x", 0, 10, reads)
			s.proof("x", 1000)
			s.got("y", 15, 20, reads)
			s.unlock("y", 30, 40)
			s.got("w", 50, 60)
			s.proof("w", 70)
		}},
		"a reader that relied on nothing within the hold of a writer": {breaks: []string{check.NoOrder}, tell: func(s *story) {
			s.got("w", 0, 10)
			s.proof("w", 1000)
			s.got("x", 15, 20, reads)
		}},
		"a writer after all readers": {tell: func(s *story) {
			s.got("x", 0, 10, reads)
			s.got("y", 15, 20, reads)
			s.proof("x", 90)
			s.got("w", 5, 100)
			s.proof("w", 200)
			s.got("z", 150, 210, reads)
			s.proof("z", 220)
		}},
		"a nil from a reader's Unlock while a writer had it": {breaks: []string{check.UnlockWasWrong, check.NoOrder}, tell: func(s *story) {
			s.got("x", 0, 10, reads)
			s.got("w", 15, 20)
			s.proof("w", 30)
			s.unlock("x", 40, 50)
		}},
		"a writer reads what it has": {tell: func(s *story) {
			s.got("w", 0, 10)
			s.got("w2", 20, 30, within("w"))
			s.proof("w", 50)
		}},
		"a reader without a fence": {rules: fenced, tell: func(s *story) {
			s.got("w", 0, 10, fence(2))
			s.got("x", 20, 30, reads)
			s.got("v", 40, 50, fence(3))
		}},
		"a reader with a fence": {rules: fenced, breaks: []string{check.FenceChanged}, tell: func(s *story) {
			s.got("x", 20, 30, reads, fence(1))
		}},
	}.run(t)
}

func TestReaders_AreNotInEachOthersWay(t *testing.T) {
	cases{
		"taken while others read": {breaks: []string{check.TakenByNobody}, tell: func(s *story) {
			s.got("x", 0, 10, reads)
			s.call(history.Taken, 100, 110, reads)
			s.unlock("x", 1000, 1010)
		}},
		"taken while a writer waits": {tell: func(s *story) {
			s.got("x", 0, 10, reads)
			s.got("w", 50, 1020)
			s.call(history.Taken, 100, 110, reads)
			s.unlock("x", 1000, 1010)
			s.unlock("w", 1030, 1040)
		}},
		"waited while others read": {breaks: []string{check.WaiterSlept}, tell: func(s *story) {
			s.got("x", 0, 10, reads, renews)
			s.call(history.Canceled, 20, 4000, reads, way(history.Waiting))
			s.unlock("x", 5000, 5010)
		}},
		"waited behind a writer that waited": {tell: func(s *story) {
			s.got("x", 0, 10, reads, renews)
			s.call(history.Canceled, 15, 4000, way(history.Waiting))
			s.call(history.Canceled, 20, 4000, reads, way(history.Waiting))
			s.unlock("x", 5000, 5010)
		}},
		"a writer waited while others read": {tell: func(s *story) {
			s.got("x", 0, 10, reads, renews)
			s.call(history.Canceled, 20, 4000, way(history.Waiting))
			s.unlock("x", 5000, 5010)
		}},
		"a later reader is before a reader": {tell: func(s *story) {
			s.got("x", 0, 900, reads)
			s.got("y", 400, 500, reads)
		}},
	}.run(t)
}
