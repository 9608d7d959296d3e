// Package benchreport is what redlock bench prints: in JSON, which bench/cmd/page reads, and as tables.
package benchreport

import (
	"fmt"
	"strings"
	"time"
)

// Hot is the Names of a Report whose callers share a lock.
const Hot = "hot"

// Report is a result with how it was measured, as redlock bench prints it in JSON.
type Report struct {
	Kind        string            `json:"nodes_are"`
	Callers     int               `json:"callers"`
	Names       string            `json:"names"`
	Fencing     bool              `json:"fencing"`
	Prefix      string            `json:"key_prefix"`
	TTL         float64           `json:"ttl_s"`
	Timeout     float64           `json:"node_timeout_s"`
	Planned     float64           `json:"duration_s"`
	WarmUp      float64           `json:"warm_up_s"`
	Faults      map[string]string `json:"faults"` // by address
	Interrupted bool              `json:"interrupted"`
	*Result
}

// Table is a part of the report for people, in text and in HTML. The first column is text and
// the others are numbers. If Wide is set, the last column is text too.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
	Wide  bool
	Notes []string
}

// Headline describes in three lines what was measured and what the result is.
func (r *Report) Headline() []string {
	mode, asked := "as fast as they can", ""
	if r.Corrected {
		mode = fmt.Sprintf("%.0f cycles/s due", r.Asked)
		asked = fmt.Sprintf(" of %.0f that were asked for", r.Asked)
	}
	names := r.Names
	if r.Fencing {
		names += ", with fencing"
	}
	outcome := fmt.Sprintf("%.0f cycles/s%s: %d acquired and released", r.CyclesPer, asked, r.Cycles)
	failed, unfinished := int64(0), int64(0)
	for _, f := range r.Failures {
		if f.Kind == Unfinished {
			unfinished += f.Count
		} else {
			failed += f.Count
		}
	}
	if failed > 0 {
		outcome += fmt.Sprintf(", %d failed", failed)
	}
	if unfinished > 0 {
		outcome += fmt.Sprintf(", %d still waiting at the end", unfinished)
	}
	if r.NotBegun > 0 {
		outcome += fmt.Sprintf(", %d were due and found no free caller: more --callers are needed for this rate, or it is too high", r.NotBegun)
	}
	if r.Interrupted {
		outcome += " (interrupted)"
	}
	return []string{
		fmt.Sprintf("%d nodes, %s", len(r.Nodes), r.Kind),
		fmt.Sprintf("callers: %d, names %s, %s; TTL %g s, node timeout %g ms; %.1f s after %g s of warm-up",
			r.Callers, names, mode, r.TTL, r.Timeout*1e3, r.Elapsed, r.WarmUp),
		outcome,
	}
}

// Tables returns the tables of the report.
func (r *Report) Tables() []Table {
	list := []Table{r.latencyTable(), r.nodeTable()}
	if len(r.Failures) > 0 {
		failures := Table{Title: "Failures", Head: []string{"", "kind", "count", "for example"}, Wide: true}
		for _, f := range r.Failures {
			example, _, _ := strings.Cut(f.Example, "\n")
			failures.Rows = append(failures.Rows, []string{f.Op, strings.ReplaceAll(f.Kind, "_", " "), fmt.Sprint(f.Count), example})
		}
		list = append(list, failures)
	}
	return list
}

func (r *Report) latencyTable() Table {
	t := Table{Title: "Latency", Head: []string{"", "p50", "p90", "p99", "p99.9", "max", "mean", "count"}}
	for _, l := range r.Latency {
		if l.Count > 0 {
			t.Rows = append(t.Rows, append(append([]string{l.What}, times(l, l.P50, l.P90, l.P99, l.P999, l.Max, l.Mean)...), fmt.Sprint(l.Count)))
		}
	}
	if r.Corrected {
		t.Notes = []string{"Corrected for coordinated omission: counted from the instant at which a cycle was due."}
	} else {
		t.Notes = []string{
			"Uncorrected: a caller that is kept waiting begins no new cycle, so that a stall counts",
			"few times. With --rate it counts in full.",
		}
	}
	return t
}

func (r *Report) nodeTable() Table {
	t := Table{Title: "Nodes, as they answered acquires", Head: append([]string{"", "p50", "p99", "max"}, Answers...), Wide: true}
	decides := r.Names != Hot
	if decides {
		t.Head = append(t.Head, "decided")
		t.Notes = []string{"decided: the share of acquires that this node's yes completed, as the last that was needed."}
	}
	t.Head = append(t.Head, "fault")
	for _, node := range r.Nodes {
		row := append([]string{node.Addr}, times(node.Latency, node.Latency.P50, node.Latency.P99, node.Latency.Max)...)
		for _, answer := range Answers {
			row = append(row, share(node.Answers[answer], node.Answered()))
		}
		if decides {
			row = append(row, share(node.Decided, r.Won))
		}
		t.Rows = append(t.Rows, append(row, r.Faults[node.Addr]))
	}
	quorum := make([]string, len(t.Head))
	copy(quorum, append(append([]string{"quorum"}, times(r.Quorum, r.Quorum.P50, r.Quorum.P99, r.Quorum.Max)...), share(r.Won, r.Won+r.Lost)))
	t.Rows = append(t.Rows, quorum)
	return t
}

// times formats microseconds of a latency, or dashes if nothing was measured.
func times(l Latency, all ...float64) []string {
	cells := make([]string, len(all))
	for i, us := range all {
		cells[i] = "-"
		if l.Count > 0 {
			cells[i] = Duration(time.Duration(us * float64(time.Microsecond)))
		}
	}
	return cells
}

func share(part, whole int64) string {
	switch {
	case whole == 0:
		return "-"
	case part == 0:
		return "0"
	case part == whole:
		return "100 %"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(whole))
}

// Duration formats a time with about three digits.
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
