package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/quorumlock/quorumlock/internal/load"
)

// report is what the bench has to say, as it stands in JSON.
type report struct {
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
	*load.Result
}

// print writes the report to the output, in the form that was asked for.
func (c *benchCmd) print(to streams, r *report) error {
	switch {
	case c.JSON:
		encoder := json.NewEncoder(to.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case c.CSV:
		return r.csv(to.out)
	}
	return r.text(to.out)
}

// csv writes a row for each number, under the names that it has in JSON.
func (r *report) csv(w io.Writer) error {
	rows := [][]string{{"table", "name", "metric", "value"}}
	add := func(table, name, metric string, value float64) {
		rows = append(rows, []string{table, name, metric, strconv.FormatFloat(value, 'f', -1, 64)})
	}
	latency := func(table, name string, l load.Latency) {
		add(table, name, "count", float64(l.Count))
		if l.Count == 0 {
			return
		}
		add(table, name, "mean_us", l.Mean)
		add(table, name, "p50_us", l.P50)
		add(table, name, "p90_us", l.P90)
		add(table, name, "p99_us", l.P99)
		add(table, name, "p99_9_us", l.P999)
		add(table, name, "max_us", l.Max)
	}
	add("run", "", "elapsed_s", r.Elapsed)
	add("run", "", "callers", float64(r.Callers))
	add("run", "", "cycles", float64(r.Cycles))
	add("run", "", "cycles_per_s", r.CyclesPer)
	add("run", "", "asked_cycles_per_s", r.Asked)
	add("run", "", "cycles_not_begun", float64(r.NotBegun))
	add("run", "", "rounds_won", float64(r.Won))
	add("run", "", "rounds_lost", float64(r.Lost))
	for _, l := range r.Latency {
		latency("latency", l.What, l)
	}
	for _, f := range r.Failures {
		add("failures", f.Op+" "+f.Kind, "count", float64(f.Count))
		rows = append(rows, []string{"failures", f.Op + " " + f.Kind, "example", f.Example})
	}
	for _, node := range r.Nodes {
		for _, answer := range answers {
			add("nodes", node.Addr, answer, float64(node.Answers[answer]))
		}
		add("nodes", node.Addr, "decided", float64(node.Decided))
		latency("nodes", node.Addr, node.Latency)
	}
	latency("nodes", "quorum", r.Quorum)
	for _, b := range r.Throughput {
		name := fmt.Sprintf("%.3f s", b.From)
		add("throughput", name, "cycles_per_s", b.CyclesPer)
		add("throughput", name, "failed_per_s", b.FailedPer)
	}
	to := csv.NewWriter(w)
	return to.WriteAll(rows)
}

// answers are the kinds of a node's answers, as [pool.Answer] calls them.
var answers = []string{"yes", "no", "maybe", "refused", "unsent"}
