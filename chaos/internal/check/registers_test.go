package check_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

func (s *story) write(f uint64, value string, from, to int64, changes ...change) {
	s.add(history.Op{Kind: history.Write, Client: value, Register: history.Redis, Fence: f, Value: value}, from, to, changes...)
}

func (s *story) read(f uint64, value string, from, to int64) {
	s.add(history.Op{Kind: history.Read, Client: "r", Register: history.Redis, Fence: f, Value: value}, from, to)
}

func TestRegisters(t *testing.T) {
	back := []string{check.RegisterBack}
	cases{
		"written and read": {tell: func(s *story) {
			s.read(0, "", 0, 10)
			s.write(1, "v", 20, 30)
			s.read(1, "v", 30, 40)
			s.write(2, "w", 50, 60)
			s.write(1, "x", 55, 70, result(history.Stale))
			s.read(2, "w", 65, 80)
		}},
		"a lower fence was accepted": {breaks: back, tell: func(s *story) {
			s.write(2, "v", 0, 10)
			s.write(1, "w", 20, 30)
		}},
		"a higher fence was rejected": {breaks: back, tell: func(s *story) {
			s.write(2, "v", 0, 10)
			s.write(3, "w", 20, 30, result(history.Stale))
			s.read(2, "v", 40, 50)
			s.write(2, "x", 60, 70)
		}},
		"an earlier value was read": {breaks: back, tell: func(s *story) {
			s.write(1, "v", 0, 10)
			s.write(1, "w", 20, 30)
			s.read(1, "v", 31, 40)
		}},
		"a write without an answer comes late": {tell: func(s *story) {
			s.write(1, "u", 0, 10, result(history.Unknown))
			s.write(1, "v", 20, 30)
			s.read(1, "v", 40, 50)
			s.read(1, "u", 60, 70)
		}},
		"a write without an answer comes twice": {breaks: back, tell: func(s *story) {
			s.write(1, "u", 0, 10, result(history.Unknown))
			s.write(1, "v", 20, 30)
			s.read(1, "u", 40, 50)
			s.read(1, "v", 60, 70)
		}},
		"only a write without an answer explains what was rejected": {tell: func(s *story) {
			s.write(3, "u", 0, never)
			s.write(2, "v", 20, 30, result(history.Stale))
			s.read(1, "old", 0, 10)
		}},
		"a write without an answer explains nothing any more": {breaks: back, tell: func(s *story) {
			s.write(3, "u", 0, never)
			s.write(2, "v", 20, 30, result(history.Stale))
			s.read(1, "old", 40, 50)
		}},
	}.run(t)
}

func TestPlain(t *testing.T) {
	plain := func(o *history.Op) { o.Register = history.Plain }
	value := func(v string) change { return func(o *history.Op) { o.Value = v } }
	tell := func(seen string, more ...func(*story)) func(*story) {
		return func(s *story) {
			s.got("x", 0, 10)
			s.of("x", history.Write, 20, 30, plain, value("v"))
			s.of("x", history.Read, 40, 50, plain, value(seen))
			s.proof("x", 60)
			for _, m := range more {
				m(s)
			}
		}
	}
	late := func(from, to int64) func(*story) {
		return func(s *story) { s.of("y", history.Write, from, to, plain, value("w")) }
	}
	cases{
		"reads what it wrote":                  {tell: tell("v")},
		"reads what nobody wrote":              {tell: tell("w"), breaks: []string{check.WriteLost}},
		"reads what one without a lock wrote":  {tell: tell("w", late(0, 21))},
		"reads what was overwritten before":    {tell: tell("w", late(0, 19)), breaks: []string{check.WriteLost}},
		"reads a write that had not yet begun": {tell: tell("w", late(51, 60)), breaks: []string{check.WriteLost}},
	}.run(t)
}
