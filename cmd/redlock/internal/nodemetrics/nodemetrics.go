// Package nodemetrics writes metrics about the nodes for Prometheus: what redlock web and redlock doctor have found
// out.
//
// What is not known is left out, as Prometheus has no value for it. No sample has the name of a lock: there may be
// many, and they may be secret.
package nodemetrics

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/promfile"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/redlock"
)

// Metrics are what is known of the nodes.
type Metrics struct {
	Labels []string // names and values in turn, which all samples have

	At    time.Time // when the nodes were asked; zero if they were not
	Nodes []Node

	ListedAt time.Time // zero without a Listing
	Listing  *survey.Listing

	ExaminedAt time.Time // zero without a Report
	Report     *doctor.Report
}

// Node is how a node has answered.
type Node struct {
	Addr        string
	Up          bool
	Latency     time.Duration // below 0 if it is not known
	Uptime      time.Duration // below 0 if it is not known
	Master      *bool         // nil if it is not known
	Quarantined *bool         // nil if it is not known
}

// maxLabel is how many characters a label shows of a text.
const maxLabel = 300

// Label returns a visible text of bounded length. Other texts have other labels.
func Label(text string) string {
	shown := display.Clipped(text, maxLabel)
	if shown != text {
		shown += fmt.Sprintf(" (%.8x)", sha256.Sum256([]byte(text)))
	}
	return shown
}

// Text returns the metrics as Prometheus reads them.
func (m *Metrics) Text() []byte {
	w := &writer{labels: m.Labels}
	if !m.At.IsZero() {
		w.one("redlock_probe_timestamp_seconds", "When the nodes were asked.", promfile.Seconds(m.At))
		w.nodes(m.Nodes)
	}
	if m.Listing != nil {
		w.listing(m.ListedAt, m.Listing)
	}
	if m.Report != nil {
		w.report(m.ExaminedAt, m.Report)
	}
	return w.Bytes()
}

// writer writes gauges.
type writer struct {
	bytes.Buffer
	labels []string
}

func (w *writer) head(name, help string) { promfile.Head(&w.Buffer, name, "gauge", help) }

func (w *writer) sample(name string, value float64, labels ...string) {
	promfile.Sample(&w.Buffer, name, promfile.Labels(slices.Concat(labels, w.labels)...), value)
}

// one writes a metric that has one sample.
func (w *writer) one(name, help string, value float64) {
	w.head(name, help)
	w.sample(name, value)
}

// nodes writes what is known of each node.
func (w *writer) nodes(nodes []Node) {
	for _, m := range []struct {
		name, help string
		value      func(*Node) (value float64, known bool)
	}{
		{"redlock_probe_node_up", "1 if the node answers as a node has to, 0 if not.",
			func(n *Node) (float64, bool) { return number(n.Up), true }},
		{"redlock_probe_node_latency_seconds", "Round trip of PING.",
			func(n *Node) (float64, bool) { return n.Latency.Seconds(), n.Latency >= 0 }},
		{"redlock_probe_node_uptime_seconds", "How long the server has been up.",
			func(n *Node) (float64, bool) { return n.Uptime.Seconds(), n.Uptime >= 0 }},
		{"redlock_probe_node_master", "1 if the server is a master, 0 if it is a replica.",
			func(n *Node) (float64, bool) { return either(n.Master) }},
		{"redlock_probe_node_quarantined", "1 if the restart guard keeps the node from granting locks, 0 if not.",
			func(n *Node) (float64, bool) { return either(n.Quarantined) }},
	} {
		headed := false
		for i := range nodes {
			value, known := m.value(&nodes[i])
			if !known {
				continue
			}
			if !headed {
				w.head(m.name, m.help)
				headed = true
			}
			w.sample(m.name, value, "node", Label(nodes[i].Addr))
		}
	}
}

// listing writes how many locks there are. Without a majority that is not known.
func (w *writer) listing(at time.Time, l *survey.Listing) {
	majority := l.Answered() >= l.Need
	w.one("redlock_probe_listing_timestamp_seconds", "When the locks were listed.", promfile.Seconds(at))
	w.one("redlock_probe_listing_majority",
		"1 if a majority of the nodes has listed all of its locks, 0 if not.", number(majority))
	w.one("redlock_probe_listing_truncated",
		"1 if there are more locks than were listed, 0 if not.", number(l.Truncated))
	if !majority {
		return
	}
	counts, eternal := map[redlock.Verdict]float64{}, 0.0
	for i := range l.Locks {
		lock := &l.Locks[i]
		verdict := lock.Verdict
		if lock.Other {
			verdict = redlock.VerdictForeign
		}
		counts[verdict]++
		if slices.ContainsFunc(lock.Views, func(v survey.View) bool { return !v.Other && v.TTL == redlock.NoLimit }) {
			eternal++
		}
	}
	w.head("redlock_probe_locks", "Locks that were listed, by who holds them: the verdicts of redlock list --json.")
	for _, verdict := range []redlock.Verdict{
		redlock.VerdictHeld, redlock.VerdictNobody, redlock.VerdictUnknown, redlock.VerdictForeign,
	} {
		w.sample("redlock_probe_locks", counts[verdict], "verdict", string(verdict))
	}
	w.one("redlock_probe_locks_without_ttl", "Locks whose key has no TTL on some node.", eternal)
}

// report writes what the doctor has found. Each check that was made has a sample for each severity.
func (w *writer) report(at time.Time, r *doctor.Report) {
	counts := map[[2]string]float64{}
	for _, f := range r.Findings {
		counts[[2]string{f.Check, string(f.Severity)}]++
	}
	w.one("redlock_doctor_last_examination_timestamp_seconds",
		"When the doctor last examined the nodes.", promfile.Seconds(at))
	w.head("redlock_doctor_findings",
		"What the doctor found, by check and severity. A finding on several nodes counts for each.")
	for _, check := range r.Checks {
		for _, severity := range []doctor.Severity{doctor.Fault, doctor.Warning} {
			found := counts[[2]string{check, string(severity)}]
			w.sample("redlock_doctor_findings", found, "check", check, "severity", string(severity))
		}
	}
	w.one("redlock_doctor_unexamined",
		"Checks that the doctor could not make, for each node.", float64(len(r.Unexamined)))
}

// number returns a truth as metrics have it.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func either(is *bool) (value float64, known bool) {
	if is == nil {
		return 0, false
	}
	return number(*is), true
}
