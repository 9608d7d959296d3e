package web

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
)

// examinationView is what the doctor has found.
type examinationView struct {
	Running, Done bool
	At, Ago       string // when it was so, and how long ago that is if it is a minute or more
	Fault         string
	Checks        int
	Unexamined    int
	Away          []string // nodes that do not answer now
	Changed       []nodeChange
	Findings      []findingView
}

// nodeChange is what has happened to a node since it was examined.
type nodeChange struct{ Addr, What string }

// findingView is a finding, with what has happened since to the nodes that it is about.
type findingView struct {
	doctor.Group
	Changed []nodeChange
}

// examine shows what the doctor has found, as it is by now.
func examine(e examination, nodes []health, now time.Time) examinationView {
	v := examinationView{Running: e.Running, Done: !e.At.IsZero(), Fault: errorText(e.Err)}
	for i := range nodes {
		n := &nodes[i]
		if n.Err != nil {
			v.Away = append(v.Away, n.Addr)
		}
		if change := n.since(e, now); change != "" && v.Done {
			v.Changed = append(v.Changed, nodeChange{n.Addr, change})
		}
	}
	if v.Done {
		v.At, v.Ago = clock(e.At), ago(now.Sub(e.At))
	}
	if e.Report == nil {
		return v
	}
	v.Checks, v.Unexamined = len(e.Report.Checks), len(e.Report.Unexamined)
	for _, group := range e.Report.Groups() {
		f := findingView{Group: group}
		for _, c := range v.Changed {
			if slices.Contains(group.Nodes, c.Addr) {
				f.Changed = append(f.Changed, c)
			}
		}
		v.Findings = append(v.Findings, f)
	}
	return v
}

// since returns what has happened to a node since an examination, "" if nothing is known to have happened.
func (h *health) since(e examination, now time.Time) string {
	switch {
	case h.Err != nil:
		return "does not answer now"
	case h.Turned.After(e.Began):
		return "was away"
	case h.Up >= 0 && now.Add(-h.Up-time.Second).After(e.At): // Up is in whole seconds
		return "has restarted"
	}
	return ""
}

// ago says how long something is past, in whole minutes; "" for less than one.
func ago(d time.Duration) string {
	if d < time.Minute {
		return ""
	}
	if d < time.Hour {
		return display.Counted(int(d/time.Minute), "minute") + " ago"
	}
	return display.Counted(int(d/time.Hour), "hour") + " ago"
}
