package check_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

var twoHolders = []string{check.TwoHolders, check.NoOrder}

func TestExclusion(t *testing.T) {
	cases{
		"one after the other": {tell: func(s *story) {
			s.got("x", 0, 10)
			s.proof("x", 100)
			s.got("y", 5, 100)
			s.proof("y", 200)
		}},
		"two holds overlap": {breaks: twoHolders, tell: func(s *story) {
			s.got("x", 0, 10)
			s.proof("x", 102)
			s.got("y", 5, 100)
			s.proof("y", 200)
		}},
		"one within the other, with a third between": {breaks: twoHolders, tell: func(s *story) {
			s.got("x", 0, 10)
			s.proof("x", 1000)
			s.got("y", 15, 20)
			s.got("z", 25, 30)
			s.proof("z", 40)
		}},
		"got and not relied on within the hold of another": {breaks: []string{check.NoOrder}, tell: func(s *story) {
			s.got("x", 0, 10)
			s.proof("x", 1000)
			s.got("y", 15, 20)
		}},
		"a call that returned late": {tell: func(s *story) {
			s.got("x", 0, 900)
			s.got("y", 5, 100)
			s.proof("y", 800)
		}},
		"detached and attached is one lease": {tell: func(s *story) {
			s.got("x", 0, 10)
			s.of("x", history.Detach, 20, 30, token("T"))
			s.add(history.Op{Kind: history.Attach, Client: "y", Hold: "y", Token: "T", Validity: 2e9}, 40, 50)
			s.proof("y", 100)
			s.proof("x", 60) // which is a fault of another kind
		}},
		"attached after another has got it": {breaks: twoHolders, tell: func(s *story) {
			s.got("x", 0, 10)
			s.of("x", history.Detach, 20, 30, token("T"))
			s.got("z", 35, 40)
			s.proof("z", 90)
			s.add(history.Op{Kind: history.Attach, Client: "y", Hold: "y", Token: "T", Validity: 2e9}, 40, 50)
			s.proof("y", 100)
		}},
		"a re-entry that came too late and got another lock": {tell: func(s *story) {
			s.got("x", 0, 10)
			s.proof("x", 20)
			s.got("y", 30, 40)
			s.proof("y", 60)
			s.got("x2", 25, 70, within("x"))
			s.proof("x2", 80)
		}},
		"a re-entry while another holds it": {breaks: twoHolders, tell: func(s *story) {
			s.got("x", 0, 10)
			s.got("y", 30, 40)
			s.proof("y", 60)
			s.got("x2", 25, 50, within("x"))
			s.proof("x2", 80)
		}},
		"forced": {rules: rules, tell: func(s *story) {
			s.got("x", 0, 10)
			s.add(history.Op{Kind: history.Force, Client: "f"}, 95, 120, result(history.NoQuorum))
			s.proof("x", 150)
			s.got("y", 5, 100)
			s.proof("y", 200)
		}},
		"forced when it was too late": {rules: rules, breaks: twoHolders, tell: func(s *story) {
			s.got("x", 0, 10)
			s.add(history.Op{Kind: history.Force, Client: "f"}, 110, 120)
			s.proof("x", 150)
			s.got("y", 5, 100)
			s.proof("y", 200)
		}},
	}.run(t)
}

func TestUnlock(t *testing.T) {
	wrong := []string{check.UnlockWasWrong, check.NoOrder}
	handoff := with(func(r *check.Rules) { r.Handoff = true })
	tell := func(changes ...change) func(s *story) {
		return func(s *story) {
			s.got("x", 0, 10, changes...)
			s.got("y", 15, 20)
			s.proof("y", 30)
			s.unlock("x", 40, 50)
		}
	}
	cases{
		"nil though another had it":                   {tell: tell(), breaks: wrong},
		"nil though another had it, of a renewed one": {tell: tell(renews), breaks: wrong},
		"nil says less if locks are handed off":       {tell: tell(), rules: handoff},
		"another had it before the end of Unlock": {tell: func(s *story) {
			s.got("x", 0, 10)
			s.unlock("x", 40, 60)
			s.got("y", 15, 50)
			s.proof("y", 70)
		}},
		"answers were lost with a connection": {tell: func(s *story) {
			tell(renews)(s)
			s.note(history.Down, "x", 25, 25)
		}},
		"a connection broke that does not matter": {breaks: wrong, tell: func(s *story) {
			tell()(s)
			s.note(history.Down, "x", 25, 25)
		}},
		"another handle still holds it": {tell: func(s *story) {
			tell()(s)
			s.got("x2", 11, 12, within("x"))
			s.unlock("x2", 60, 70)
		}},
	}.run(t)
}

func TestFences(t *testing.T) {
	cases{
		"rise": {rules: fenced, tell: func(s *story) {
			s.got("x", 0, 10, fence(1))
			s.got("y", 20, 30, fence(2))
		}},
		"calls at the same time": {rules: fenced, tell: func(s *story) {
			s.got("x", 0, 10, fence(2))
			s.got("y", 10, 20, fence(1))
		}},
		"go back": {rules: fenced, breaks: []string{check.FenceWentBack, check.NoOrder}, tell: func(s *story) {
			s.got("x", 0, 10, fence(2))
			s.got("y", 11, 20, fence(1))
		}},
		"go back as the proof shows": {rules: fenced, breaks: []string{check.NoOrder}, tell: func(s *story) {
			s.got("x", 0, 10, fence(2))
			s.proof("x", 15)
			s.got("y", 5, 20, fence(1))
			s.got("z", 0, 12, fence(3))
		}},
		"are missing": {rules: fenced, breaks: []string{check.FenceWentBack}, tell: func(s *story) {
			s.got("x", 0, 10)
		}},
		"are the same": {rules: fenced, breaks: []string{check.FenceWentBack, check.NoOrder}, tell: func(s *story) {
			s.got("x", 0, 10, fence(1))
			s.got("y", 5, 20, fence(1))
		}},
		"stay with the lock": {rules: fenced, tell: func(s *story) {
			s.got("x", 0, 10, fence(1))
			s.got("x2", 20, 30, within("x"), fence(1))
			s.proof("x", 40)
			s.of("x", history.Detach, 50, 60, token("T"))
			s.add(history.Op{Kind: history.Attach, Client: "y", Hold: "y", Token: "T"}, 70, 80, fence(1))
		}},
		"change with a re-entry": {rules: fenced, breaks: []string{check.FenceChanged}, tell: func(s *story) {
			s.got("x", 0, 10, fence(1))
			s.got("x2", 20, 30, within("x"), fence(2))
			s.proof("x", 40)
		}},
		"change with Attach": {rules: fenced, breaks: []string{check.FenceChanged}, tell: func(s *story) {
			s.got("x", 0, 10, fence(1))
			s.of("x", history.Detach, 50, 60, token("T"))
			s.add(history.Op{Kind: history.Attach, Client: "y", Hold: "y", Token: "T"}, 70, 80, fence(2))
		}},
	}.run(t)
}

func TestOutlived(t *testing.T) {
	cases{
		"just within":              {tell: func(s *story) { s.got("x", 0, 10); s.proof("x", 2914) }},
		"longer than it was valid": {breaks: []string{check.Outlived}, tell: func(s *story) { s.got("x", 0, 10); s.proof("x", 2916) }},
		"renewed":                  {tell: func(s *story) { s.got("x", 0, 10, renews); s.proof("x", 2916) }},
		"extended": {tell: func(s *story) {
			s.got("x", 0, 10)
			s.of("x", history.Extend, 1000, 1010, lasting(3000))
			s.proof("x", 4010)
		}},
		"extended by a re-entry": {tell: func(s *story) { s.got("x", 0, 10); s.got("x2", 1000, 1010, within("x")); s.proof("x", 4010) }},
		"longer than it was extended": {breaks: []string{check.Outlived}, tell: func(s *story) {
			s.got("x", 0, 10)
			s.of("x", history.Extend, 1000, 1010, lasting(3000))
			s.proof("x", 4016)
		}},
	}.run(t)
}

func TestLossReported(t *testing.T) {
	five := with(func(r *check.Rules) { r.Nodes = 5 })
	tell := func(last int64) func(*story) { // known 1 s and 0.6 s and 1 s after 1020
		return func(s *story) {
			s.got("x", 0, 10, renews)
			s.add(history.Op{Kind: history.Force, Client: "f"}, 1000, 1020)
			s.proof("x", last)
		}
	}
	late := []string{check.LossNotReported}
	cases{
		"just in time": {rules: rules, tell: tell(3620)},
		"too late":     {rules: rules, tell: tell(3621), breaks: late},
		"a fault delays it": {rules: rules, tell: func(s *story) {
			tell(5000)(s)
			s.fault("partition", 1100, 2000)
		}},
		"a fault leaves it a majority": {rules: five, breaks: late, tell: func(s *story) {
			tell(3621)(s)
			s.fault("partition", 1100, 2000, nodes(1, 2))
		}},
		"a fault leaves it no majority": {rules: five, tell: func(s *story) {
			tell(5000)(s)
			s.fault("partition", 1100, 2000, nodes(1, 2, 3))
		}},
		"two faults leave it no majority": {rules: five, tell: func(s *story) {
			tell(5000)(s)
			s.fault("partition", 1100, 2000, nodes(1, 2))
			s.fault("partition", 1500, 2000, nodes(2, 3))
		}},
		"too late after a fault": {rules: rules, breaks: late, tell: func(s *story) {
			tell(5501)(s)
			s.fault("partition", 1100, 2000) // felt until 2900
		}},
		"a fault of another client": {rules: rules, breaks: late, tell: func(s *story) {
			tell(3621)(s)
			s.fault("stop-client", 1100, 2000, func(o *history.Op) { o.Nodes, o.Clients = nil, []string{"other"} })
		}},
		"a fault of links of another client": {rules: rules, breaks: late, tell: func(s *story) {
			tell(3621)(s)
			s.fault("partition", 1100, 2000, func(o *history.Op) { o.Clients = []string{"other"} })
		}},
		"a fault of the links of its machine": {rules: rules, tell: func(s *story) {
			tell(3621)(s)
			s.fault("partition", 1100, 2000, func(o *history.Op) { o.Clients = []string{"x.1"} })
		}},
		"an answer was lost with a connection": {rules: rules, tell: func(s *story) {
			tell(3621)(s)
			s.note(history.Down, "x", 1100, 1100)
		}},
		"its Locker was shut down": {rules: five, tell: func(s *story) {
			tell(3621)(s)
			s.fault("replace", 500, 1500)
		}},
		"a failover may have brought the keys back": {rules: five, tell: func(s *story) {
			tell(3621)(s)
			s.fault("late-kill", 500, 600)
		}},
		"a failover by hand may too": {rules: five, tell: func(s *story) {
			tell(3621)(s)
			s.fault("fail-over", 500, 600)
		}},
		"a failover without a lost write": {rules: five, breaks: late, tell: func(s *story) {
			tell(3621)(s)
			s.fault("kill", 500, 600)
		}},
		"an earlier Locker was shut down": {rules: five, breaks: late, tell: func(s *story) {
			tell(3621)(s)
			s.fault("replace", 0, 0)
			(*s)[0].Start, (*s)[0].End = 1e6, 10e6
		}},
		"answers were lost of two nodes of five": {rules: five, breaks: late, tell: func(s *story) {
			tell(3621)(s)
			s.down("x", 1, 1100)
			s.down("x", 2, 1100)
		}},
		"answers were lost of three nodes": {rules: five, tell: func(s *story) {
			tell(3621)(s)
			s.down("x", 1, 1100)
			s.down("x", 2, 1100)
			s.down("x", 3, 1100)
		}},
		"an answer was lost, and not all nodes were forced": {rules: five, tell: func(s *story) {
			tell(3621)(s)
			s.down("x", 1, 1100)
			s.down("f", 2, 800)
		}},
		"the last answer that could show it was lost": {rules: rules, tell: func(s *story) {
			tell(9000)(s)
			s.note(history.Down, "x", 5520, 5520)
		}},
		"an answer was lost later": {rules: rules, breaks: late, tell: func(s *story) {
			tell(9000)(s)
			s.note(history.Down, "x", 5521, 5521)
		}},
		"unlocked meanwhile": {rules: rules, tell: func(s *story) {
			tell(3621)(s)
			s.unlock("x", 1010, 1011)
		}},
		"not certain to have removed it": {rules: rules, tell: func(s *story) {
			tell(3621)(s)
			(*s)[1].Err = history.NoQuorum
		}},
	}.run(t)
}
