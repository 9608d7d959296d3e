package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/internal/benchreport"
)

// print writes the report in the format that was asked for.
func (c *benchCmd) print(w io.Writer, r *benchreport.Report) error {
	switch {
	case c.JSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case c.CSV:
		return csv.NewWriter(w).WriteAll(csvRows(r))
	}
	return text(w, r)
}

// csvRows returns a row for each number, under the name that it has in JSON.
func csvRows(r *benchreport.Report) [][]string {
	rows := [][]string{{"table", "name", "metric", "value"}}
	add := func(table, name string, v any) {
		for _, number := range numbers(v) {
			rows = append(rows, []string{table, name, number[0], number[1]})
		}
	}
	add("run", "", *r)
	add("run", "", *r.Result)
	for _, l := range r.Latency {
		add("latency", l.What, l)
	}
	for _, f := range r.Failures {
		name := f.Op + " " + f.Kind
		add("failures", name, f)
		rows = append(rows, []string{"failures", name, "example", f.Example})
	}
	for _, node := range r.Nodes {
		for _, answer := range benchreport.Answers {
			rows = append(rows, []string{"nodes", node.Addr, answer, fmt.Sprint(node.Answers[answer])})
		}
		add("nodes", node.Addr, node)
		add("nodes", node.Addr, node.Latency)
	}
	add("nodes", "quorum", r.Quorum)
	for _, b := range r.Throughput {
		add("throughput", fmt.Sprintf("%.3f s", b.From), b)
	}
	return rows
}

// numbers returns the names and values of the numbers in a struct. A latency that was never
// measured has only a count.
func numbers(v any) (list [][2]string) {
	if l, ok := v.(benchreport.Latency); ok && l.Count == 0 {
		return [][2]string{{"count", "0"}}
	}
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		name := value.Type().Field(i).Tag.Get("json")
		switch field := value.Field(i); {
		case field.CanInt():
			list = append(list, [2]string{name, strconv.FormatInt(field.Int(), 10)})
		case field.CanFloat():
			list = append(list, [2]string{name, strconv.FormatFloat(field.Float(), 'f', -1, 64)})
		}
	}
	return list
}

// text writes the report for a terminal.
func text(w io.Writer, r *benchreport.Report) error {
	var b strings.Builder
	for _, line := range r.Headline() {
		fmt.Fprintln(&b, line)
	}
	for _, t := range r.Tables() {
		fmt.Fprintf(&b, "\n%s\n", t.Title)
		texts := []int{0}
		if t.Wide {
			texts = append(texts, len(t.Head)-1)
		}
		for _, line := range columns(append([][]string{t.Head}, t.Rows...), texts...) {
			fmt.Fprintln(&b, "  "+line)
		}
		for _, note := range t.Notes {
			fmt.Fprintln(&b, "  "+note)
		}
	}
	b.WriteString(spark(r))
	_, err := io.WriteString(w, b.String())
	return err
}

// spark draws the throughput as a row of bars.
func spark(r *benchreport.Report) string {
	if r.Cycles == 0 || len(r.Throughput) == 0 {
		return ""
	}
	byRate := func(a, b benchreport.Bucket) int { return cmp.Compare(a.CyclesPer, b.CyclesPer) }
	low, high := slices.MinFunc(r.Throughput, byRate).CyclesPer, slices.MaxFunc(r.Throughput, byRate).CyclesPer
	bars := []rune(" ▁▂▃▄▅▆▇█")
	var line strings.Builder
	for _, b := range r.Throughput {
		line.WriteRune(bars[int(b.CyclesPer/max(high, 1)*float64(len(bars)-1)+0.5)])
	}
	return fmt.Sprintf("\nThroughput over time\n  |%s|\n  from %.0f to %.0f cycles/s, %g s each\n",
		line.String(), low, high, r.Throughput[0].Length)
}
