package check_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

func TestTaken(t *testing.T) {
	nobody := []string{check.TakenByNobody}
	alone := func(s *story) { s.call(history.Taken, 10000, 10010) }
	cases{
		"by nobody": {tell: alone, breaks: nobody},
		"by another call": {tell: func(s *story) {
			alone(s)
			s.call(history.Canceled, 9000, 9850)
		}},
		"by a holder": {tell: func(s *story) {
			alone(s)
			s.got("x", 8000, 8010)
			s.unlock("x", 9840, 9850)
		}},
		"after a holder": {breaks: nobody, tell: func(s *story) {
			alone(s)
			s.got("x", 8000, 8010)
			s.unlock("x", 9600, 9699)
		}},
		"after a holder whose release may not have come through": {tell: func(s *story) {
			alone(s)
			s.got("x", 8000, 8010)
			s.unlock("x", 9300, 9600)
		}},
		"by what a holder may have left": {tell: func(s *story) {
			alone(s)
			s.got("x", 5000, 5010)
			s.unlock("x", 5600, 5690).Err = history.NoQuorum
		}},
		"by a process that was killed": {tell: func(s *story) {
			alone(s)
			s.call("", 7000, never, client("killed"))
		}},
		"by what a fault may have left": {tell: func(s *story) { alone(s); s.fault("freeze", 3000, 3500) }},
		"long after a fault":            {breaks: nobody, tell: func(s *story) { alone(s); s.fault("freeze", 1000, 1500) }},
		"by a program without the library": {tell: func(s *story) {
			alone(s)
			s.add(history.Op{Kind: history.Set, Client: "s", Key: "k"}, 100, 110)
		}},
		"after a program without the library": {breaks: nobody, tell: func(s *story) {
			alone(s)
			s.add(history.Op{Kind: history.Set, Client: "s", Key: "k"}, 100, 110)
			s.add(history.Op{Kind: history.Clear, Client: "s", Key: "k"}, 200, 210)
		}},
	}.run(t)
}

func TestSlept(t *testing.T) {
	slept := []string{check.WaiterSlept}
	waits := func(s *story, from, to int64) { s.call(history.Canceled, from, to, way(history.Waiting)) }
	cases{
		"got it in time": {tell: func(s *story) { s.got("x", 0, 3590) }},
		"got it late":    {breaks: slept, tell: func(s *story) { s.got("x", 0, 3601) }},
		"gave up":        {breaks: slept, tell: func(s *story) { waits(s, 0, 3601) }},
		"waits for ever": {breaks: slept, tell: func(s *story) {
			s.call("", 0, never, way(history.Waiting))
			s.note(history.Usage, "caller", 3601, 3601)
		}},
		"after a holder": {breaks: slept, tell: func(s *story) {
			waits(s, 500, 4701)
			s.got("x", 0, 10)
			s.unlock("x", 1000, 1100)
		}},
		"behind others": {tell: func(s *story) {
			waits(s, 500, 5000)
			s.got("x", 510, 2000)
			s.unlock("x", 2100, 2200)
			s.call(history.Canceled, 2300, 2400, way(history.Waiting))
		}},
		"after a detached lock that was attached to and released": {breaks: slept, tell: func(s *story) {
			s.got("x", 0, 10)
			s.of("x", history.Detach, 20, 30, token("t"))
			s.add(history.Op{Kind: history.Attach, Client: "y", Hold: "y", Token: "t"}, 100, 110)
			s.unlock("y", 120, 130)
			waits(s, 15, 3741)
		}},
		"behind a detached lock that nobody releases": {tell: func(s *story) {
			s.got("x", 0, 10)
			s.of("x", history.Detach, 20, 30, token("t"))
			waits(s, 15, 4000)
		}},
		"behind a detached lock that was attached to": {tell: func(s *story) {
			s.got("x", 0, 10)
			s.of("x", history.Detach, 20, 30, token("t"))
			s.add(history.Op{Kind: history.Attach, Client: "y", Hold: "y", Token: "t"}, 100, 110)
			waits(s, 15, 4000)
		}},
		"in a fault": {tell: func(s *story) { waits(s, 0, 5000); s.fault("freeze", 2000, 2100) }},
	}.run(t)
}

func TestOrder(t *testing.T) {
	tell := func(first, second int64, changes ...change) func(s *story) {
		return func(s *story) {
			s.got("x", 0, first, changes...)
			s.got("y", 301, second)
		}
	}
	cases{
		"as they came":                  {tell: tell(1000, 1100)},
		"the second first":              {tell: tell(1001, 700), breaks: []string{check.OutOfOrder}},
		"at about the same time":        {tell: tell(1000, 700)},
		"in different processes":        {tell: tell(1001, 700, func(o *history.Op) { o.Locker = "m" })},
		"one that does not wait":        {tell: tell(1001, 700, way(history.Trying))},
		"while the process stood still": {tell: func(s *story) { tell(1001, 700)(s); s.note(history.Stall, "y", 690, 995) }},
	}.run(t)
}

func TestUnexpected(t *testing.T) {
	cases{
		"named":     {tell: func(s *story) { s.call(history.NoQuorum, 0, 10) }},
		"not named": {tell: func(s *story) { s.call("redlock: what?", 0, 10) }, breaks: []string{check.UnexpectedError}},
		"released by nobody": {breaks: []string{check.UnexpectedError}, tell: func(s *story) {
			s.got("x", 0, 10)
			s.of("x", history.Over, 20, 20, result(history.Released))
		}},
		"released by another hold of it": {breaks: []string{check.UnexpectedError}, tell: func(s *story) {
			s.got("x", 0, 10)
			s.got("y", 20, 30, within("x"))
			s.unlock("y", 40, 50)
			s.of("x", history.Over, 60, 60, result(history.Released))
		}},
		"released by itself": {tell: func(s *story) {
			s.got("x", 0, 10)
			s.unlock("x", 20, 30)
			s.of("x", history.Over, 25, 25, result(history.Released))
		}},
		"detached by another hold of it": {tell: func(s *story) {
			s.got("x", 0, 10)
			s.got("y", 20, 30, within("x"))
			s.of("y", history.Detach, 40, 50, token("t"))
			s.of("x", history.Over, 45, 45, result(history.Released))
		}},
		"shut down": {tell: func(s *story) {
			s.got("x", 0, 10)
			s.fault("node-set", 15, 30)
			s.of("x", history.Over, 25, 25, result(history.Released))
		}},
	}.run(t)
}

func TestStrangers(t *testing.T) {
	heals := with(func(r *check.Rules) { r.Strangers, r.Heal = true, 2*time.Second })
	changed := []string{check.StrangerChanged}
	tell := func(key string, at int64, value string, more ...func(*story)) func(*story) {
		return func(s *story) {
			s.add(history.Op{Kind: history.Set, Client: "s", Node: 1, Key: key, Value: "1"}, 0, 10)
			s.add(history.Op{Kind: history.Check, Client: "s", Node: 1, Key: key, Value: value}, at-10, at)
			for _, m := range more {
				m(s)
			}
		}
	}
	cases{
		"stays":                     {rules: heals, tell: tell("a", 1000, "1")},
		"goes":                      {rules: heals, tell: tell("a", 1999, ""), breaks: changed},
		"is healed":                 {rules: heals, tell: tell("a", 2000, "")},
		"in the place of a counter": {rules: heals, tell: tell("{a}:fence", 2000, "7"), breaks: changed},
		"was forgotten": {rules: heals, tell: tell("a", 1000, "", func(s *story) {
			s.fault("restart-empty", 500, 600)
		})},
		"was forgotten by another node": {rules: heals, breaks: changed, tell: tell("a", 1000, "", func(s *story) {
			s.fault("restart-empty", 500, 600, func(o *history.Op) { o.Nodes = []int{2} })
		})},
		"looks unchanged": {rules: heals, tell: tell("a", 1000, "", func(s *story) {
			s.fault("no-messages", 500, 600)
		})},
		"looks unchanged, on another node": {rules: heals, breaks: changed, tell: tell("a", 1000, "", func(s *story) {
			s.fault("no-messages", 500, 600, func(o *history.Op) { o.Nodes = []int{2} })
		})},
		"looks unchanged in the place of a counter": {rules: heals, breaks: changed, tell: tell("{a}:fence", 1000, "", func(s *story) {
			s.fault("no-messages", 500, 600)
		})},
		"was deleted by another": {rules: heals, tell: tell("a", 1000, "", func(s *story) {
			s.add(history.Op{Kind: history.Clear, Client: "s", Worker: 2, Node: 1, Key: "a"}, 500, 600)
		})},
	}.run(t)
}
