package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/quorumlock/quorumlock/internal/load"
)

// sheet is a table for people. The first column is text, the others are numbers, but
// where wide is set the last is text too.
type sheet struct {
	Title string
	Head  []string
	Rows  [][]string
	Wide  bool
	Notes []string
}

// headline says in a few lines what was measured and what came out.
func (r *report) headline() []string {
	mode := "as fast as they go"
	if r.Corrected {
		mode = fmt.Sprintf("%.0f cycles/s due", r.Asked)
	}
	first := fmt.Sprintf("%d nodes, %s", len(r.Nodes), r.Kind)
	names := r.Names
	if r.Fencing {
		names += ", with fencing"
	}
	second := fmt.Sprintf("callers: %d, names %s, %s; TTL %g s, node timeout %g ms; %.1f s after %g s of warm-up",
		r.Callers, names, mode, r.TTL, r.Timeout*1e3, r.Elapsed, r.WarmUp)
	third := fmt.Sprintf("%.0f cycles/s", r.CyclesPer)
	if r.Corrected {
		third += fmt.Sprintf(" of %.0f that were asked for", r.Asked)
	}
	third += fmt.Sprintf(": %d acquired and released", r.Cycles)
	failed, unfinished := r.failed()
	if failed > 0 {
		third += fmt.Sprintf(", %d failed", failed)
	}
	if unfinished > 0 {
		third += fmt.Sprintf(", %d still waiting at the end", unfinished)
	}
	if r.NotBegun > 0 {
		third += fmt.Sprintf(", %d were due and found no free caller: more --callers are needed for this rate, or it is too high", r.NotBegun)
	}
	if r.Interrupted {
		third += " (interrupted)"
	}
	return []string{first, second, third}
}

// failed counts the cycles that failed, and those that the end cut off.
func (r *report) failed() (failed, unfinished int64) {
	for _, f := range r.Failures {
		if f.Kind == load.Unfinished {
			unfinished += f.Count
		} else {
			failed += f.Count
		}
	}
	return failed, unfinished
}

// sheets are the tables of the report.
func (r *report) sheets() []sheet {
	list := []sheet{r.latencies(), r.nodes()}
	if len(r.Failures) > 0 {
		failures := sheet{Title: "Failures", Head: []string{"", "kind", "count", "for example"}, Wide: true}
		for _, f := range r.Failures {
			example, _, _ := strings.Cut(f.Example, "\n")
			failures.Rows = append(failures.Rows, []string{f.Op, strings.ReplaceAll(f.Kind, "_", " "), fmt.Sprint(f.Count), example})
		}
		list = append(list, failures)
	}
	return list
}

func (r *report) latencies() sheet {
	s := sheet{Title: "Latency", Head: []string{"", "p50", "p90", "p99", "p99.9", "max", "mean", "count"}}
	for _, l := range r.Latency {
		if l.Count > 0 {
			s.Rows = append(s.Rows, []string{l.What, micros(l.P50), micros(l.P90), micros(l.P99), micros(l.P999),
				micros(l.Max), micros(l.Mean), fmt.Sprint(l.Count)})
		}
	}
	if r.Corrected {
		s.Notes = append(s.Notes, "Corrected for coordinated omission: counted from the instant at which a cycle was due.")
	} else {
		s.Notes = append(s.Notes, "Uncorrected percentiles: a caller that is kept waiting begins no new cycle meanwhile, so that a stall counts few times. With --rate it counts in full.")
	}
	return s
}

func (r *report) nodes() sheet {
	s := sheet{Title: "Nodes, as they answered acquires", Head: append([]string{"", "p50", "p99", "max"}, answers...)}
	decides := r.Names != hotNames
	if decides {
		s.Head = append(s.Head, "decided")
		s.Notes = append(s.Notes, "decided: the share of acquires that this node's yes completed, as the last that was needed.")
	}
	s.Head = append(s.Head, "fault")
	s.Wide = true
	for _, node := range r.Nodes {
		row := append([]string{node.Addr}, short(node.Latency)...)
		for _, answer := range answers {
			row = append(row, share(node.Answers[answer], node.Answered()))
		}
		if decides {
			row = append(row, share(node.Decided, r.Won))
		}
		s.Rows = append(s.Rows, append(row, r.Faults[node.Addr]))
	}
	quorum := append([]string{"quorum"}, short(r.Quorum)...)
	quorum = append(quorum, share(r.Won, r.Won+r.Lost))
	for len(quorum) < len(s.Head) {
		quorum = append(quorum, "")
	}
	s.Rows = append(s.Rows, quorum)
	return s
}

func short(l load.Latency) []string {
	if l.Count == 0 {
		return []string{"-", "-", "-"}
	}
	return []string{micros(l.P50), micros(l.P99), micros(l.Max)}
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

// micros renders microseconds with about three digits.
func micros(us float64) string {
	switch {
	case us < 1e3:
		return fmt.Sprintf("%.0f µs", us)
	case us < 1e5:
		return fmt.Sprintf("%.2f ms", us/1e3)
	case us < 1e6:
		return fmt.Sprintf("%.0f ms", us/1e3)
	}
	return fmt.Sprintf("%.2f s", us/1e6)
}

// text writes the report for a terminal.
func (r *report) text(w io.Writer) error {
	var b strings.Builder
	for _, line := range r.headline() {
		fmt.Fprintln(&b, line)
	}
	for _, s := range r.sheets() {
		fmt.Fprintf(&b, "\n%s\n", s.Title)
		s.text(&b)
		for _, note := range s.Notes {
			fmt.Fprintln(&b, "  "+note)
		}
	}
	if line := r.spark(); line != "" {
		fmt.Fprintf(&b, "\nThroughput over time\n%s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// text writes the rows in columns, the first on the left and the others on the right.
func (s sheet) text(w io.Writer) {
	first := 0
	for _, row := range s.Rows {
		first = max(first, len([]rune(row[0])))
	}
	var columns strings.Builder
	table := tabwriter.NewWriter(&columns, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{s.Head}, s.Rows...) {
		cells := append([]string{fmt.Sprintf("%-*s", first, row[0])}, row[1:]...)
		last := ""
		if s.Wide {
			last, cells = "  "+cells[len(cells)-1], cells[:len(cells)-1]
		}
		fmt.Fprintln(table, strings.Join(cells, "\t")+"\t"+last)
	}
	_ = table.Flush() // into memory
	for line := range strings.Lines(columns.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

// spark draws the throughput as a row of bars.
func (r *report) spark() string {
	low, high := 0.0, 0.0
	for i, b := range r.Throughput {
		high = max(high, b.CyclesPer)
		if i == 0 || b.CyclesPer < low {
			low = b.CyclesPer
		}
	}
	if high == 0 {
		return ""
	}
	bars := []rune(" ▁▂▃▄▅▆▇█")
	var line strings.Builder
	for _, b := range r.Throughput {
		line.WriteRune(bars[int(b.CyclesPer/high*float64(len(bars)-1)+0.5)])
	}
	return fmt.Sprintf("  |%s|\n  from %.0f to %.0f cycles/s, %g s each", line.String(), low, high, r.Throughput[0].Length)
}
