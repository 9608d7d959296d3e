package report

import (
	"math"
	"slices"

	"github.com/quorumlock/quorumlock/bench/internal/chart"
)

var (
	ofFive    = []string{"floor", "quorumlock", "redsync", "redsync-failfast", "redsync-goredis"}
	taking    = slices.Insert(slices.Clone(ofFive), 2, "quorumlock-lock")
	fenced    = slices.Insert(slices.Clone(ofFive), 2, "quorumlock-fenced")
	ofOne     = []string{"floor", "quorumlock", "redsync", "bsm-redislock"}
	observed  = []string{"quorumlock", "quorumlock-observed", "quorumlock-prometheus", "quorumlock-otel", "quorumlock-otel-traced"}
	libraries = []string{"quorumlock", "redsync", "redsync-failfast", "redsync-goredis"}
	hot       = slices.Insert(slices.Clone(libraries), 1, "quorumlock-handoff", "quorumlock-handoff-fenced")
	crowd     = []string{"quorumlock", "quorumlock-handoff", "redsync"}
	far       = slices.Insert(slices.Clone(crowd), 2, "quorumlock-handoff-10ms")
	fresh     = []string{"floor", "quorumlock", "quorumlock-fenced", "redsync"}
	costing   = []string{"floor", "quorumlock", "redsync"}
	sizes     = []int{1, 3, 5, 7, 9}
	together  = []string{"quorumlock", "quorumlock-all", "quorumlock-fenced", "quorumlock-all-fenced"}
	reading   = []string{"quorumlock", "quorumlock-lock", "quorumlock-shared"}
	slots     = []string{"quorumlock-lock", "quorumlock-slot"}
)

// on returns a case for each subject.
func on(workload string, nodes int, subjects []string) []Case {
	cases := make([]Case, len(subjects))
	for i, s := range subjects {
		cases[i] = Case{Workload: workload, Subject: s, Nodes: nodes}
	}
	return cases
}

// over returns a case for each number of nodes and each subject.
func over(workload string, sizes []int, subjects []string) (cases []Case) {
	for _, n := range sizes {
		cases = append(cases, on(workload, n, subjects)...)
	}
	return cases
}

// vary returns the cases of each variant.
func vary(workload string, subjects []string, variants ...string) (cases []Case) {
	for _, v := range variants {
		for _, c := range on(workload, 5, subjects) {
			c.Variant = v
			cases = append(cases, c)
		}
	}
	return cases
}

// compared are the first columns: a figure beside the floor's and redsync's.
func compared(head, unit string) []column {
	return []column{subjects, value(head, unit), ratio("× floor", unit, as("floor")), ratio("× redsync", unit, as("redsync"))}
}

// tables returns the tables of the page by name.
func tables() map[string]table {
	latency := append(compared("p50, µs", "p50-µs"), value("p99, µs", "p99-µs"), failed)
	cycles := append(compared("cycles/s", "cycles/s"), failed)
	allocations := []column{subjects, value("allocations", "allocs/op"), value("bytes", "B/op"), ratio("allocations × redsync", "allocs/op", as("redsync"))}
	contended := []column{
		subjects,
		value("acquisitions/s", "acquisitions/s"), ratio("× redsync", "acquisitions/s", as("redsync")),
		value("p50, ms", "p50-ms"),
		value("p99, ms", "p99-ms"), ratio("p99 × redsync", "p99-ms", as("redsync")),
		value("max, ms", "max-ms"), ratio("max × redsync", "max-ms", as("redsync")),
		value("most/least, goroutines", "most/least-goroutine"),
	}
	processes := append(slices.Clone(contended), value("most/least, processes", "most/least-process"))
	var beside []Case
	for _, c := range on("E", 5, libraries) {
		for c.Frozen = range 3 {
			beside = append(beside, c)
		}
	}
	trip := value("round trip, ms", "round-trip-ms")
	return map[string]table{
		"acquire of five":     {on("A", 5, taking), latency},
		"acquire of one":      {on("A", 1, ofOne), latency},
		"cycles of five":      {on("B", 5, fenced), cycles},
		"cycles of one":       {on("B", 1, ofOne), cycles},
		"fresh cycles":        {on("S", 5, fresh), cycles},
		"contended":           {on("C", 5, hot), contended},
		"processes":           {on("D", 5, hot), processes},
		"far contended":       {on("P", 5, far), append(slices.Clone(contended), trip)},
		"far processes":       {on("Q", 5, far), append(slices.Clone(processes), trip)},
		"crowd":               {on("R", 5, crowd), processes},
		"allocations of five": {on("H", 5, ofFive), allocations},
		"allocations of one":  {on("H", 1, ofOne), allocations},
		"connections":         {on("F", 5, []string{"floor", "quorumlock", "redsync"}), []column{subjects, value("connections", "conns/node")}},
		"frozen": {beside, []column{
			subjects, frozen,
			value("p50, µs", "p50-µs"), ratio("p50 × none frozen", "p50-µs", healthy),
			value("p99, µs", "p99-µs"), ratio("p99 × none frozen", "p99-µs", healthy),
			failed,
		}},
		"growth": {[]Case{{Workload: "G", Subject: "quorumlock", Nodes: 5, Frozen: 1}}, []column{
			subjects,
			value("heap, KB", "heap-KB"), value("growth, KB", "heap-growth-KB"),
			value("goroutines", "goroutines"), value("growth", "goroutine-growth"), failed,
		}},
		"woken": {on("K", 5, libraries), []column{
			subjects, value("p50, µs", "p50-µs"), ratio("p50 × redsync", "p50-µs", as("redsync")), value("p99, µs", "p99-µs"), value("round trips", "round-trips"),
		}},
		"held": {[]Case{{Workload: "J", Subject: "quorumlock", Nodes: 5}, {Workload: "L", Subject: "quorumlock", Nodes: 5}}, []column{
			subjects, value("locks", "locks"), value("TTL, s", "ttl-s"), value("CPU, % of one core", "core-%"), value("renewals/s", "renewals/s"),
			value("heap, bytes per lock", "heap-B/lock"), value("lost", "lost"),
		}},
		"observed acquire": {on("N", 5, observed), []column{
			subjects, value("p50, µs", "p50-µs"), ratio("p50 × none", "p50-µs", as("quorumlock")), value("p99, µs", "p99-µs"),
		}},
		"observed cycles": {on("O", 5, observed), []column{
			subjects, value("cycles/s", "cycles/s"), ratio("× none", "cycles/s", as("quorumlock")),
		}},
		"together": {on("T", 5, together), []column{
			subjects, value("p50, µs", "p50-µs"), ratio("p50 × quorumlock", "p50-µs", as("quorumlock")), value("p99, µs", "p99-µs"), failed,
		}},
		"readers": {vary("U", reading, "64", "1024"), []column{
			variant("inside"), subjects, value("cycles/s", "cycles/s"), ratio("× quorumlock-lock", "cycles/s", as("quorumlock-lock")),
			value("CPU per cycle, µs", "cpu-µs/cycle"), value("of the servers, µs", "servers-µs/cycle"),
		}},
		"writer": {vary("V", []string{"quorumlock"}, "same", "other"), []column{
			variant("process"), value("p50, holds", "p50-holds"), value("p99, holds", "p99-holds"), value("max, holds", "p100-holds"),
			value("hold, ms", "hold-ms"), value("reads/s", "reads/s"),
		}},
		"slots": {vary("W", slots, "1", "4"), []column{
			variant("lockers"), subjects, value("cycles/s", "cycles/s"), ratio("× quorumlock-lock", "cycles/s", as("quorumlock-lock")),
			value("inside", "inside"), value("hold, ms", "hold-ms"),
			value("CPU per cycle, µs", "cpu-µs/cycle"), value("of the servers, µs", "servers-µs/cycle"), value("most/least", "most/least-goroutine"),
		}},
		"restart": {on("X", 1, []string{"quorumlock", "redsync"}), []column{
			subjects, value("p50, µs", "p50-µs"), ratio("p50 × redsync", "p50-µs", as("redsync")), value("p99, µs", "p99-µs"),
		}},
		"cost": {over("M", sizes[1:], costing), []column{
			nodes, subjects, value("cycles/s", "cycles/s"), ratio("× floor", "cycles/s", as("floor")),
			value("CPU per cycle, µs", "cpu-µs/cycle"), ratio("CPU × floor", "cpu-µs/cycle", as("floor")), ratio("CPU × redsync", "cpu-µs/cycle", as("redsync")),
		}},
		"nodes": {over("I", sizes, []string{"floor", "quorumlock"}), []column{nodes, subjects, value("p50, µs", "p50-µs"), ratio("× floor", "p50-µs", as("floor"))}},
	}
}

// charts returns how to draw the charts of the page, by the names of their files.
func charts() map[string]func(*Results) ([]byte, error) {
	return map[string]func(*Results) ([]byte, error){
		"acquire.svg": func(r *Results) ([]byte, error) {
			axes := chart.Axes{Title: "Waiting for a free lock, one caller", Y: "p50 (µs)"}
			return bars(r, axes, "p50-µs", []string{"five nodes", "one node"}, on("A", 5, taking), on("A", 1, ofOne))
		},
		"cycles.svg": func(r *Results) ([]byte, error) {
			axes := chart.Axes{Title: "Locks taken and given back by 64 callers", Y: "cycles per second"}
			return bars(r, axes, "cycles/s", []string{"five nodes", "one node"}, on("B", 5, fenced), on("B", 1, ofOne))
		},
		"contended.svg": func(r *Results) ([]byte, error) {
			return waits(r, "Waiting for a hot name, 16 goroutines of one process", on("C", 5, hot))
		},
		"processes.svg": func(r *Results) ([]byte, error) {
			return waits(r, "Waiting for a hot name, 8 processes of 2 goroutines", on("D", 5, hot))
		},
		"hot.svg": func(r *Results) ([]byte, error) {
			axes := chart.Axes{Title: "How often a hot name changes hands", Y: "acquisitions per second", LogY: true}
			groups := []string{"1 process", "8 processes", "1 process, far nodes", "8 processes, far nodes"}
			return bars(r, axes, "acquisitions/s", groups, on("C", 5, crowd), on("D", 5, crowd), on("P", 5, far), on("Q", 5, far))
		},
		"frozen.svg": func(r *Results) ([]byte, error) {
			axes := chart.Axes{Title: "Waiting for a free lock while nodes hang", Y: "p99 (µs)", LogY: true}
			groups := make([][]Case, 3)
			for frozen := range groups {
				groups[frozen] = on("E", 5, libraries)
				for i := range groups[frozen] {
					groups[frozen][i].Frozen = frozen
				}
			}
			return bars(r, axes, "p99-µs", []string{"none of five", "one of five", "two of five"}, groups...)
		},
		"nodes.svg": func(r *Results) ([]byte, error) {
			axes := chart.Axes{Title: "Waiting for a free lock, one caller", X: "nodes", Y: "p50 (µs)"}
			return lines(r, axes, "I", "p50-µs", sizes, []string{"floor", "quorumlock"})
		},
		"cost.svg": func(r *Results) ([]byte, error) {
			axes := chart.Axes{Title: "What a cycle costs the program, 64 callers", X: "nodes", Y: "CPU per cycle (µs)", LogY: true}
			return lines(r, axes, "M", "cpu-µs/cycle", sizes[1:], costing)
		},
	}
}

// lines draws the medians of a workload over the number of nodes, a line for each subject.
func lines(r *Results, axes chart.Axes, workload, unit string, sizes []int, subjects []string) ([]byte, error) {
	var all []chart.Line
	for _, s := range subjects {
		line := chart.Line{Name: s}
		for _, n := range sizes {
			values, err := r.Values(Case{Workload: workload, Subject: s, Nodes: n}, unit)
			if err != nil {
				return nil, err
			}
			line.X, line.Y = append(line.X, float64(n)), append(line.Y, sum(values).median)
		}
		all = append(all, line)
	}
	return chart.Lines(axes, all)
}

// bars draws the medians of some groups of cases, each subject in its colour.
func bars(r *Results, axes chart.Axes, unit string, groups []string, cases ...[]Case) ([]byte, error) {
	var all []chart.Bars
	at := map[string]int{}
	for group, members := range cases {
		for _, c := range members {
			values, err := r.Values(c, unit)
			if err != nil {
				return nil, err
			}
			i, ok := at[c.Subject]
			if !ok {
				i = len(all)
				at[c.Subject] = i
				none := make([]float64, len(groups))
				for g := range none {
					none[g] = math.NaN()
				}
				all = append(all, chart.Bars{Name: c.Subject, Values: none})
			}
			all[i].Values[group] = sum(values).median
		}
	}
	return chart.GroupedBars(axes, groups, all)
}

// waits draws a bar for each percentile of the waits of each case, from the waiter for which it is the least to the one for which
// it is the most; the mark is at that of all waits together.
func waits(r *Results, title string, cases []Case) ([]byte, error) {
	percentiles := []string{"p50", "p90", "p99", "max"}
	var all []chart.Bars
	for _, c := range cases {
		bar := chart.Bars{Name: c.Subject}
		for _, p := range percentiles {
			for unit, to := range map[string]*[]float64{p + "-least-ms": &bar.Least, p + "-ms": &bar.Values, p + "-most-ms": &bar.Most} {
				values, err := r.Values(c, unit)
				if err != nil {
					return nil, err
				}
				*to = append(*to, sum(values).median)
			}
		}
		all = append(all, bar)
	}
	return chart.GroupedBars(chart.Axes{Title: title, Y: "wait (ms)", LogY: true}, percentiles, all)
}
