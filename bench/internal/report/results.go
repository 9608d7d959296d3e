// Package report makes a page with tables and charts of what the benchmarks of package bench print.
package report

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// Case is what one benchmark measures.
type Case struct {
	Workload string // the letter that the benchmark's name begins with
	Subject  string
	Nodes    int
	Frozen   int    // nodes that hang
	Variant  string // what else sets the cases of a workload apart, such as how many readers of U are inside
	Pause    string // of Y9, for how long each pauses
}

func (c Case) String() string {
	of := c.Subject
	if c.Variant != "" {
		of += ", " + c.Variant
	}
	if c.Pause != "" {
		of += ", pauses of " + c.Pause
	}
	return fmt.Sprintf("%s of %s on %d nodes, %d frozen", c.Workload, of, c.Nodes, c.Frozen)
}

// Results are the figures of all cases, in the order in which they were measured.
type Results struct {
	config map[string]string
	cases  map[Case]map[string][]float64 // by unit
}

// Read parses what benchmarks have printed. A line of a benchmark that cannot be read, a name without the parts of a [Case], a
// setting that changes on the way and text without any result are errors.
func Read(from io.Reader) (*Results, error) {
	results := &Results{config: map[string]string{}, cases: map[Case]map[string][]float64{}}
	lines := benchfmt.NewReader(from, "benchmarks")
	for lines.Scan() {
		switch record := lines.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, fmt.Errorf("report: %w", record)
		case *benchfmt.Result:
			if err := results.add(record); err != nil {
				return nil, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	if len(results.cases) == 0 {
		return nil, errors.New("report: there is no result")
	}
	return results, nil
}

func (r *Results) add(result *benchfmt.Result) error {
	c, err := parseName(result.Name)
	if err != nil {
		return err
	}
	for _, setting := range result.Config {
		value := string(setting.Value)
		if before, ok := r.config[setting.Key]; ok && before != value {
			return fmt.Errorf("report: %s is %q for one result and %q for another", setting.Key, before, value)
		}
		r.config[setting.Key] = value
	}
	if r.cases[c] == nil {
		r.cases[c] = map[string][]float64{}
	}
	for _, v := range result.Values {
		r.cases[c][v.Unit] = append(r.cases[c][v.Unit], v.Value)
	}
	return nil
}

func parseName(name benchfmt.Name) (Case, error) {
	base, parts := name.Parts()
	workload, _, _ := strings.Cut(string(base), "_")
	c := Case{Workload: workload}
	for _, part := range parts {
		key, value, _ := strings.Cut(string(part), "=")
		var err error
		switch key {
		case "/subject":
			c.Subject = value
		case "/nodes":
			c.Nodes, err = strconv.Atoi(value)
		case "/frozen":
			c.Frozen, err = strconv.Atoi(value)
		case "/inside", "/process", "/lockers", "/job", "/set", "/names", "/beside", "/readers", "/callers":
			c.Variant = value
		case "/pause":
			c.Pause = value
		}
		if err != nil {
			return c, fmt.Errorf("report: %s: %w", name, err)
		}
	}
	if c.Subject == "" || c.Nodes == 0 {
		return c, fmt.Errorf("report: the name %s has no subject or no number of nodes", name)
	}
	return c, nil
}

// Config returns a setting that the text names, such as cpu.
func (r *Results) Config(key string) (string, error) {
	value, ok := r.config[key]
	if !ok {
		return "", fmt.Errorf("report: there is no %q, only %q", key, slices.Sorted(maps.Keys(r.config)))
	}
	return value, nil
}

// Values returns what was measured of a case in one unit, one value for each pass.
func (r *Results) Values(c Case, unit string) ([]float64, error) {
	values := r.cases[c][unit]
	if len(values) == 0 {
		return nil, fmt.Errorf("report: there is no %s for %s", unit, c)
	}
	return values, nil
}

// Ratios returns one case's values over another's, pass by pass: what slows the whole machine for a while slows both.
func (r *Results) Ratios(c, over Case, unit string) ([]float64, error) {
	values, err := r.Values(c, unit)
	if err != nil {
		return nil, err
	}
	base, err := r.Values(over, unit)
	if err != nil {
		return nil, err
	}
	if len(values) != len(base) {
		return nil, fmt.Errorf("report: %d passes with %s, but %d with %s", len(values), c, len(base), over)
	}
	ratios := make([]float64, len(values))
	for i := range ratios {
		if base[i] == 0 {
			return nil, fmt.Errorf("report: %s has 0 %s: nothing can be compared with it", over, unit)
		}
		ratios[i] = values[i] / base[i]
	}
	return ratios, nil
}
