package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"

	"github.com/quorumlock/quorumlock/internal/load"
)

// report is the result of the bench, as it is printed in JSON.
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

// print writes the report in the format that was asked for.
func (c *benchCmd) print(w io.Writer, r *report) error {
	switch {
	case c.JSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case c.CSV:
		return csv.NewWriter(w).WriteAll(r.rows())
	}
	return r.text(w)
}

// rows returns a row for each number, under the name that it has in JSON.
func (r *report) rows() [][]string {
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
		for _, answer := range load.Answers {
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
	if l, ok := v.(load.Latency); ok && l.Count == 0 {
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
