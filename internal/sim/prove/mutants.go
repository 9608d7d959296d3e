package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/quorumlock/quorumlock/internal/sim"
)

// mutant is a rule weakened: one place of the source, written otherwise. It exists in
// the build that the simulator is made from, and nowhere else.
type mutant struct {
	Name string
	Rule string // what the rule says that is broken
	file string // below internal/
	was  string // occurs once in it
	is   string
}

var mutants = []mutant{
	{
		"majority-off-by-one", "a majority is more than half of the nodes",
		"quorum/quorum.go", "return n/2 + 1", "return n / 2",
	}, {
		"majority-of-reachable", "a majority is counted over all nodes, not over those that answer",
		"quorum/tally.go", "return Majority(len(t.ballots)) }", "return Majority(len(t.ballots) - t.failed) }",
	}, {
		"validity-after-send", "validity is counted from before the first send",
		"quorum/acquire.go", "a.asked = true", "a.asked, a.grant.Start = true, clock.Now()",
	}, {
		"no-drift", "the drift allowance is taken off the validity",
		"quorum/quorum.go", "g.TTL - g.Drift.Of(g.TTL)", "g.TTL",
	}, {
		"win-without-validity", "a majority that comes after the deadline wins nothing",
		"quorum/acquire.go", "majority && clock.Now().Before(a.grant.Deadline())", "majority",
	}, {
		"no-rollback", "a lost round is released",
		"quorum/tally.go", "if t.Reached(i) {", "if false {",
	}, {
		"rollback-on-yes-only", "a lost round is released on every node that it may have reached",
		"quorum/tally.go", "if t.Reached(i) {", "if t.ballots[i].vote == Yes {",
	}, {
		"rollback-before-asking-ends", "no release before the acquire has gone out everywhere",
		"quorum/acquire.go", "case !a.asked:\n\t\treturn Effects{}\n", "",
	}, {
		"stragglers-forgotten", "an early verdict forgets no node that has not answered",
		"quorum/tally.go", "return t.ballots[i].vote != Unsent }", "return t.ballots[i].vote != Unsent && t.ballots[i].vote != Pending }",
	}, {
		"same-token", "every round has a token of its own",
		"sim/client.go", "c.number, c.rounds+1)", "c.number, 1)",
	}, {
		"release-without-compare", "a release deletes its own token only",
		"sim/server.go", "case held.token != c.token:", "case held.token != c.token && c.verb != release:",
	}, {
		"release-overtakes", "a release is written behind its acquire",
		"pipeline/pipeline.go", "\tp.queue.push(op)\n\treturn p.queue.len() == 1, nil",
		"\tif op.Kind == CleanUp {\n\t\tp.queue.items = append([]Op[T]{op}, p.queue.all()...)\n\t\tp.queue.head = 0\n\t} else {\n\t\tp.queue.push(op)\n\t}\n\treturn p.queue.len() == 1, nil",
	}, {
		"lost-reply-is-no", "a lost reply is no answer, and not a no",
		"pipeline/pipeline.go", "notices = o.tell(notices, Maybe, reason)\n\t\tif o.Kind == CleanUp && o.worthwhile(now)",
		"notices = o.tell(notices, Unsent, reason)\n\t\tif o.Kind == CleanUp && o.worthwhile(now)",
	}, {
		"clean-up-forgotten", "a release that was not answered is sent again on the next connection",
		"pipeline/pipeline.go", "if o.Kind == CleanUp && o.worthwhile(now) {", "if false {",
	}, {
		"broken-connection-lives-on", "the server reads nothing more from a connection that broke",
		"sim/server.go", "\tc.killed, c.inbox = true, nil\n\treturn 1", "\treturn 1",
	}, {
		"extension-past-deadline", "an extension is confirmed before the old deadline",
		"quorum/extend.go", "held, outcome := e.lease.At(now) == Held, e.outcome()", "held, outcome := true, e.outcome()",
	}, {
		"bounded-by-new-deadline", "an extension is bounded by the deadline that stands, not by the one that it asks for",
		"quorum/extend.go", "e.lease.At(now) == Held, e.outcome()", "now.Before(e.grant.Deadline()), e.outcome()",
	}, {
		"extension-revives", "an extension makes no key that is not there",
		"sim/server.go", "\tcase !ok:\n\t\treturn 0", "\tcase !ok && c.verb == extend:\n\t\tk.keys[c.key] = entry{token: c.token, expires: now + c.ttl}\n\tcase !ok:\n\t\treturn 0",
	}, {
		"extension-shortens", "an extension never makes a TTL shorter",
		"sim/server.go", "held.expires-now < c.ttl", "true",
	}, {
		"undo-forgotten", "a yes does not count while an undo may still arrive behind it",
		"quorum/extend.go", "if vote == Yes && !e.told && e.lease.restores(node) {", "if false {",
	}, {
		"undo-believed", "an undo that may still arrive is not taken for gone",
		"pipeline/pipeline.go", "fate := Maybe\n", "fate := Undone\n",
	}, {
		"no-sweep", "what a failed extension left longer is released when the lease is over",
		"quorum/lease.go", "return left\n", "return false\n",
	},
}

// try builds the simulator with the mutant in it and runs it, at most seeds schedules.
// It returns nil for a mutant that survives.
func (m mutant) try(root string, seeds uint64) (*sim.Found, error) {
	explore, clean, err := m.build(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	defer clean()
	cmd := exec.Command(explore, "-json", "-from", "1", "-seeds", fmt.Sprint(seeds))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	var found *sim.Found
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("%s: %w in %q", m.Name, err, out)
	}
	return found, nil
}

// build makes the simulator with the mutant in it.
func (m mutant) build(root string) (program string, clean func(), err error) {
	path := filepath.Join(root, "internal", filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	if n := bytes.Count(source, []byte(m.was)); n != 1 {
		return "", nil, fmt.Errorf("%q occurs %d times in %s, not once", m.was, n, m.file)
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", nil, err
	}
	clean = func() { _ = os.RemoveAll(dir) }
	mutated := filepath.Join(dir, "mutated.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err == nil {
		err = os.WriteFile(mutated, bytes.Replace(source, []byte(m.was), []byte(m.is), 1), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	program = filepath.Join(dir, "explore")
	if err == nil {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./internal/sim/explore")
		cmd.Dir = root
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	if err != nil {
		clean()
		return "", nil, err
	}
	return program, clean, nil
}
