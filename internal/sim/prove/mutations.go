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

// mutation weakens a rule: it rewrites one place of the source, in a build of the simulator of its own.
type mutation struct {
	Name string
	Rule string // what the rule says that is broken
	file string // below internal/
	was  string // occurs once in it
	is   string
}

// lockMutations weaken what makes a lock exclusive, and what gets it to those who wait.
var lockMutations = []mutation{
	{"majority-off-by-one", "a majority is more than half of the nodes",
		"quorum/quorum.go", "return n/2 + 1", "return n / 2"},
	{"majority-of-reachable", "a majority is counted over all nodes, not over those that answer",
		"quorum/tally.go", "return Majority(len(t.ballots)) }", "return Majority(len(t.ballots) - t.failed) }"},
	{"validity-after-send", "validity is counted from before the first send",
		"quorum/acquire.go", "a.asked = true", "a.asked, a.grant.Start = true, clock.Now()"},
	{"no-drift", "the drift allowance is taken off the validity",
		"quorum/quorum.go", "g.TTL - g.Drift.Of(g.TTL)", "g.TTL"},
	{"win-without-validity", "a majority that comes after the deadline wins nothing",
		"quorum/acquire.go", "majority && clock.Now().Before(a.grant.Deadline())", "majority"},
	{"no-rollback", "a lost round is released",
		"quorum/tally.go", "if t.Reached(i) {", "if false {"},
	{"rollback-on-yes-only", "a lost round is released on every node that it may have reached",
		"quorum/tally.go", "if t.Reached(i) {", "if t.ballots[i].answer == Yes {"},
	{"rollback-before-asking-ends", "no release before the acquire has gone out everywhere",
		"quorum/acquire.go", "case a.asked && (majority", "case (majority"},
	{"stragglers-forgotten", "an early verdict forgets no node that has not answered",
		"quorum/tally.go", "return t.ballots[i].answer != Unsent }", "return t.ballots[i].answer != Unsent && t.ballots[i].answer != Pending }"},
	{"same-token", "every round has a token of its own",
		"sim/client.go", "c.self, c.rounds+1)", "c.self, 1)"},
	{"release-without-compare", "a release deletes its own token only",
		"sim/keyspace.go", "case !ours, c.verb", "case !ours && c.verb != release, c.verb"},
	{"release-overtakes", "a release is written behind its acquire",
		"node/pipeline.go", "\tp.queue.push(op)\n\treturn p.queue.len() == 1, nil",
		"\tif op.CleanUp {\n\t\tp.queue.items = append([]Op[T]{op}, p.queue.all()...)\n\t\tp.queue.head = 0\n\t} else {\n\t\tp.queue.push(op)\n\t}\n\treturn p.queue.len() == 1, nil"},
	{"lost-reply-is-no", "a lost reply is no answer, and not a no",
		"node/pipeline.go", "notices = o.report(notices, quorum.Unknown, reason)\n\t\tif o.CleanUp && o.worthwhile(now)",
		"notices = o.report(notices, quorum.Unsent, reason)\n\t\tif o.CleanUp && o.worthwhile(now)"},
	{"clean-up-forgotten", "a release that was not answered is sent again on the next connection",
		"node/pipeline.go", "if o.CleanUp && o.worthwhile(now) {", "if false {"},
	{"broken-connection-lives-on", "the server reads nothing more from a connection that broke",
		"sim/server.go", "\tc.killed, c.inbox = true, nil\n\treturn 1", "\treturn 1"},
	{"extension-past-deadline", "an extension is confirmed before the old deadline",
		"quorum/extend.go", "held, outcome := e.lease.At(now) == Held, e.outcome()", "held, outcome := true, e.outcome()"},
	{"bounded-by-new-deadline", "an extension is bounded by the deadline that stands, not by the one that it asks for",
		"quorum/extend.go", "e.lease.At(now) == Held, e.outcome()", "now.Before(e.grant.Deadline()), e.outcome()"},
	{"extension-shortens", "an extension never makes a TTL shorter",
		"sim/keyspace.go", "held.expires-now < c.ttl", "true"},
	{"no-clean-up-after-extension", "what a failed extension left longer is released when the lease is over",
		"quorum/lease.go", "return left\n", "return false\n"},
	{"nothing-recreated", "an extension gives the key to a node that has lost it",
		"sim/keyspace.go", "c.verb == extend && (ours || !ok)", "c.verb == extend && ours"},
	{"recreated-is-yes", "a node that has only now been given the key did not hold the lock",
		"sim/line.go", "quorum.Recreated}", "quorum.Yes}"},
	{"recreated-not-released", "a lock that was extended is released on every node",
		"sim/lock.go", "return k.lease.Everywhere() ||", "return k.of.client != k.client ||"},
	{"heal-after-unlock", "a node is asked to extend only while the lease stands",
		"quorum/extend.go", "Ask(clock Clock) bool { return e.lease.At(clock.Now()) == Held }", "Ask(Clock) bool { return true }"},
	{"unlock-leaves-lease", "a lease ends when its unlock begins, and its renewals with it",
		"sim/lock.go", "k.lease.End(c.clock.Now(), quorum.Released) == quorum.Released", "k.lease.At(c.clock.Now()) == quorum.Held"},
	{"renewal-gives-up", "a renewal that failed is tried again while the lease stands",
		"quorum/renewal.go", "\tr.Busy(now)\n", "\tr.due = now.Add(time.Hour)\n"},
	{"renewal-without-margin", "a lease is renewed while there is time to try again",
		"quorum/renewal.go", "renewShare = 3", "renewShare = 1"},
	{"first-unlock-releases", "of several holds of a lock only the last releases it",
		"quorum/lease.go", "return l.holds == 0", "return true"},
	{"last-unlock-forgotten", "the last of several holds releases the lock",
		"quorum/lease.go", "return l.holds == 0", "return l.holds < 0"},
	{"attach-to-any", "a lock is attached to only if a majority holds it",
		"quorum/attach.go", "\tif outcome == Done && !a.agreed() {", "\tif a.yes > 0 {\n\t\toutcome = Done\n\t} else if outcome == Done && !a.agreed() {"},
	{"attach-longest", "an attached lock is valid for the least TTL that a majority has left",
		"quorum/attach.go", "ttl < a.grant.TTL", "ttl > a.grant.TTL"},
	{"attach-counted-late", "the validity of an attached lock is counted from before the first observation",
		"quorum/attach.go", "\treturn a.conclude(outcome)", "\ta.grant.Start = clock.Now()\n\treturn a.conclude(outcome)"},
	{"wake-up-is-grant", "a message that it is one's turn is a hint, and no grant",
		"sim/tracking.go", "return q.machine.HandedOver(l.server.number, n.who) })",
		"return q.machine.HandedOver(l.server.number, n.who) })\n\t\tif w, ok := q.machine.Head(); ok && w.round != nil {\n\t\t\tw.round.end(quorum.Done)\n\t\t}"},
	{"turn-lost", "the turn of a waiter that gives up goes on to the next",
		"quorum/queue.go", "case i == 0 && q.trying:", "case i == 0 && q.trying && false:"},
	{"waiter-forgotten", "a waiter stays in the queue until it has the lock or gives up",
		"quorum/queue.go", "q.waiters = slices.Delete(q.waiters, 0, 1)", "q.waiters = slices.Delete(q.waiters, 0, min(2, len(q.waiters)))"},
	{"last-come-first-served", "waiters of one process are served in the order in which they came",
		"quorum/queue.go", "q.waiters = append(q.waiters, w)", "q.waiters = slices.Insert(q.waiters, len(q.waiters)/2, w)"},
	{"hand-over-with-old-token", "a lock that is handed over gets a token of its own",
		"sim/queue.go", "r := c.newAcquire(q.key, w.ttl, q.floor)\n",
		"r := c.newAcquire(q.key, w.ttl, q.floor)\n\tif n := len(c.locks); n > 0 {\n\t\tif k := c.locks[n-1]; k.client == c && k.of.key == q.key && k.unlocked {\n\t\t\tr.token, c.world.rounds[k.of.token] = k.of.token, r\n\t\t}\n\t}\n"},
	{"no-expiry-tick", "a waiter tries when the TTLs are over that it has seen, pushed or not",
		"quorum/wait.go", "\t\tactions.wakeAt(s.ends[need-1])\n", ""},
	{"never-observed-again", "a waiter observes all nodes again after a while, whatever is tracked",
		"quorum/wait.go", "\tif !now.Before(c.observeAt) {\n\t\tactions.Observe = append(actions.Observe, c.observeAll(now)...)\n\t}\n\tactions.wakeAt(c.observeAt)\n", ""},
	{"untracked-change", "what may have changed while a node did not track it is observed again",
		"quorum/queue.go", "Actions {\n\treturn q.observeAgain(now, node)", "Actions {\n\treturn Actions{}"},
	{"tracking-loss-ignored", "no push is expected from a node whose connection has ended",
		"quorum/queue.go", "\tq.nodes[node].Tracked = false\n", ""},
	{"untracked-taken-for-tracked", "no push is expected for what was observed without tracking",
		"sim/queue.go", "Tracked: r.tracked", "Tracked: true"},
	{"push-overtakes-reply", "pushes come in order with the replies",
		"sim/tracking.go", "c.deliver(take)", "c.receive(take)"},
	{"leftover-believed", "a push of one node is expected only for nodes that hold the same token",
		"quorum/wait.go", "guarded(c.nodes, now) <= len(c.nodes)-need", "guarded(c.nodes, now) == 0"},
	{"observation-never-sent", "only an observation that has been sent is awaited",
		"quorum/queue.go", "\t\tn.observing = false // no", "\t\t// no"},
	{"no-back-off", "pauses between rounds grow if no changes are pushed",
		"quorum/wait.go", "\tc.polls++\n", ""},
	{"heal-at-once", "a key without a TTL is deleted only when it has been seen so for long",
		"quorum/wait.go", "c.pace.Heal > 0 && actions.due(now, n.noTTLFrom.Add(c.pace.Heal))", "c.pace.Heal > 0"},
	{"heal-guessed", "that a key has no TTL is taken for granted on no node",
		"quorum/wait.go", "if !n.NoTTL { //", "if true { //"},
	{"never-healed", "a key without a TTL is deleted in the end",
		"quorum/wait.go", "\t\t\tactions.Heal = append(actions.Heal, LostKey{i, n.Token})\n", ""},
	{"heal-of-another", "only a key that still holds what was seen is deleted",
		"sim/keyspace.go", "case !ours, c.verb == heal && !held.forever, ", "case !ours && c.verb != heal, "},
}

// try builds the simulator with the mutation in it and runs it, at most bound schedules, from a seed on.
// It returns nil for a mutation that survives.
func (m mutation) try(root string, from uint64) (*sim.Found, error) {
	explore, clean, err := m.build(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	defer clean()
	cmd := exec.Command(explore, "-json", "-from", fmt.Sprint(from), "-seeds", fmt.Sprint(bound))
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

// build makes the simulator with the mutation in it.
func (m mutation) build(root string) (program string, clean func(), err error) {
	path := filepath.Join(root, "internal", filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	if n := bytes.Count(source, []byte(m.was)); n != 1 {
		return "", nil, fmt.Errorf("%q occurs %d times in %s, not once", m.was, n, m.file)
	}
	dir, err := os.MkdirTemp("", "mutation")
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
		cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./internal/sim/explore")
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
