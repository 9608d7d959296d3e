//go:build linux

package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/failover"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/chaos/internal/kind"
	"github.com/quorumlock/quorumlock/chaos/internal/timeline"
)

// Report says what an episode was, and what its history shows.
type Report struct {
	Episodes, Operations, Holds, Faults int
	Violations                          []check.Violation
	Usage                               []*history.Op // what client processes needed
	Undecided                           int           // windows that porcupine had no time for
	Gap                                 time.Duration // the longest time without a lock that was got
	Checking                            time.Duration
	FailOver                            failover.Result
	Meanwhile                           int // locks that were got while nodes failed over
}

// Add adds another episode.
func (r *Report) Add(o Report) {
	r.Episodes, r.Operations, r.Holds, r.Faults = r.Episodes+o.Episodes, r.Operations+o.Operations, r.Holds+o.Holds, r.Faults+o.Faults
	r.Violations, r.Usage = append(r.Violations, o.Violations...), append(r.Usage, o.Usage...)
	r.FailOver.Add(o.FailOver)
	r.Meanwhile += o.Meanwhile
	r.Undecided, r.Gap, r.Checking = r.Undecided+o.Undecided, max(r.Gap, o.Gap), r.Checking+o.Checking
}

func (r Report) String() string {
	text := fmt.Sprintf("%d faults, %d operations, %d holds, the longest time without a new one %v; checked in %v: %d violations",
		r.Faults, r.Operations, r.Holds, r.Gap.Round(time.Millisecond), r.Checking.Round(time.Millisecond), len(r.Violations))
	if r.FailOver != (failover.Result{}) {
		text += fmt.Sprintf("; %v, and %d holds meanwhile", r.FailOver, r.Meanwhile)
	}
	if r.Undecided > 0 {
		text += fmt.Sprintf(" (%d windows not decided)", r.Undecided)
	}
	return text
}

// check checks the history of the episode, and removes it if it is well. Otherwise it writes what shows the violations.
func (w *World) check() (r Report, err error) {
	begun := time.Now()
	files := histories(w.Dir, w.episode)
	ops, err := history.Load(files...)
	if err != nil {
		return r, err
	}
	got := []int64{w.worked, w.drained}
	faults := slices.DeleteFunc(slices.Clone(ops), func(op *history.Op) bool { return op.Kind != history.Fault })
	r.Episodes, r.Operations, r.Faults = 1, len(ops), len(faults)
	for _, op := range ops {
		switch {
		case op.Kind == history.Usage:
			r.Usage = append(r.Usage, op)
		case op.Kind == history.Acquire && op.Hold != "":
			r.Holds++
			if slices.ContainsFunc(faults, func(f *history.Op) bool { return f.Start < op.End && op.End < f.End }) {
				r.Meanwhile++
			}
			// A lock that is handed off, or taken again, needs no node.
			if op.End < w.drained && op.Outer == "" && !kind.Of(w.Kinds, op.Name).Rules.Handoff {
				got = append(got, op.End)
			}
		}
	}
	slices.Sort(got)
	for i := range len(got) - 1 {
		r.Gap = max(r.Gap, time.Duration(got[i+1]-got[i]))
	}
	h := check.New(ops)
	r.Violations = h.Endless()
	for _, name := range h.Names() {
		rules := kind.Of(w.Kinds, name).Rules
		rules.Lease, rules.Timeout, rules.Guard = w.ttls[len(w.ttls)-1], nodeTimeout, w.guard()
		rules.Nodes, rules.Register = len(w.nodes), w.register
		if w.failover != nil {
			rules.Register = failover.Count // the nodes are no servers of the cluster, and have numbers of their own
		}
		violations, undecided := h.Check(name, rules)
		r.Violations = append(r.Violations, violations...)
		r.Undecided += undecided
	}
	r.Checking = time.Since(begun)
	for i, v := range r.Violations {
		if i == 10 {
			fmt.Fprintf(w.Out, "and %d more\n", len(r.Violations)-i)
			break
		}
		if err := w.show(h, v, i); err != nil {
			return r, err
		}
	}
	leftovers, err := filepath.Glob(filepath.Join(w.Dir, "*.detached"))
	for _, file := range leftovers { // tokens of names that are used no more
		err = errors.Join(err, os.Remove(file))
	}
	if err != nil {
		return r, err
	}
	if len(r.Violations) == 0 {
		for _, file := range files {
			_ = os.Remove(file)
		}
	}
	return r, nil
}

// show prints a violation with the operations that show it, and draws them.
func (w *World) show(h *check.History, v check.Violation, number int) error {
	window := h.Window(v)
	text := check.Text(window)
	path := filepath.Join(w.Dir, fmt.Sprintf("violation-%d-%d.html", w.episode, number))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	title := fmt.Sprintf("%s: %s: %s", v.Name, v.Promise, v.Text)
	fmt.Fprintf(w.Out, "\nVIOLATION %s\n%s%s\n\n", title, text, path)
	return timeline.Write(file, title, text, window)
}
