package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/benchreport"
)

// sample returns a report with something in each field.
func sample() *benchreport.Report {
	latency := func(what string, us float64) benchreport.Latency {
		return benchreport.Latency{
			What: what, Count: 1000, Mean: us, P50: us, P90: 2 * us, P99: 3 * us, P999: 4 * us, Max: 5 * us,
			Curve: []benchreport.Point{{Percentile: 0, Micros: us / 2}, {Percentile: 90, Micros: 2 * us}, {Percentile: 99.9, Micros: 4 * us}},
		}
	}
	none := benchreport.Latency{What: benchreport.Refusal, Curve: []benchreport.Point{}}
	return &benchreport.Report{
		Kind: processKind, Callers: 64, Names: "distinct", Prefix: "redlock-bench:x:", TTL: 10, Timeout: 0.05, Planned: 2, WarmUp: 1,
		Faults: map[string]string{"b:2": "frozen"},
		Result: &benchreport.Result{
			Elapsed: 2, Cycles: 1000, CyclesPer: 500, Asked: 600, Corrected: true, NotBegun: 200,
			Latency: []benchreport.Latency{
				latency(benchreport.Acquire, 321), latency(benchreport.Release, 123), latency(benchreport.Cycle, 444),
				latency(benchreport.Service, 300), latency(benchreport.Queueing, 21), none,
			},
			Failures: []benchreport.Failure{{Op: "acquire", Kind: "no_quorum", Count: 7, Example: "no <quorum> & so on\nsecond line"}},
			Won:      990, Lost: 10,
			Nodes: []benchreport.Node{
				{Addr: "a:1", Answers: map[string]int64{"yes": 999, "no": 1, "unknown": 0, "refused": 0, "unsent": 0}, Latency: latency("answer", 222), Decided: 990},
				{Addr: "b:2", Answers: map[string]int64{"yes": 0, "no": 0, "unknown": 1000, "refused": 0, "unsent": 0}, Latency: none},
			},
			Quorum:     latency("quorum", 250),
			Throughput: []benchreport.Bucket{{From: 0, Length: 1, CyclesPer: 400, FailedPer: 3}, {From: 1, Length: 1, CyclesPer: 600, FailedPer: 4}},
		},
	}
}

func printed(t *testing.T, c benchCmd, r *benchreport.Report) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, c.print(&out, r))
	return out.String()
}

func TestReport_JSONHoldsEverythingWithUnitsInItsNames(t *testing.T) {
	out := printed(t, benchCmd{JSON: true}, sample())
	var got benchreport.Report
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	assert.Equal(t, *sample(), got)
	for _, name := range []string{`"p99_us": 963`, `"ttl_s": 10`, `"asked_cycles_per_s": 600`, `"cycles_per_s": 500`, `"nodes_are"`} {
		assert.Contains(t, out, name)
	}
}

func TestReport_CSVAndTextHoldTheSameNumbers(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(printed(t, benchCmd{CSV: true}, sample()))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"table", "name", "metric", "value"}, rows[0])
	value := map[string]string{}
	for _, row := range rows[1:] {
		key := strings.Join(row[:3], "/")
		assert.NotContains(t, value, key, "twice")
		value[key] = row[3]
	}
	text := printed(t, benchCmd{}, sample())
	for _, l := range sample().Latency {
		for metric, want := range map[string]float64{
			"mean_us": l.Mean, "p50_us": l.P50, "p90_us": l.P90, "p99_us": l.P99, "p99_9_us": l.P999, "max_us": l.Max,
		} {
			key := "latency/" + l.What + "/" + metric
			if l.Count == 0 {
				assert.NotContains(t, value, key)
				continue
			}
			got, err := strconv.ParseFloat(value[key], 64)
			require.NoError(t, err, key)
			assert.InDelta(t, want, got, 0)
			assert.Contains(t, text, benchreport.Duration(time.Duration(got*float64(time.Microsecond))))
		}
	}
	assert.Equal(t, "999", value["nodes/a:1/yes"])
	assert.Equal(t, "1000", value["nodes/b:2/unknown"])
	assert.Equal(t, "990", value["nodes/a:1/decided"])
	assert.Equal(t, "7", value["failures/acquire no_quorum/count"])
	assert.Equal(t, sample().Failures[0].Example, value["failures/acquire no_quorum/example"])
	assert.Equal(t, "600", value["throughput/1.000 s/cycles_per_s"])
	assert.Equal(t, "600", value["run//asked_cycles_per_s"])
}

func TestReport_TextIsAlignedAndExplainsItsNumbers(t *testing.T) {
	text := printed(t, benchCmd{}, sample())
	for _, want := range []string{
		"2 nodes, redis-server processes of its own\n",
		"500 cycles/s of 600 that were asked for: 1000 acquired and released, 7 failed, 200 were due and found no free caller",
		"Corrected for coordinated omission",
		"\n                     p50     p90      p99    p99.9      max    mean  count\n",
		"\n  acquire         321 µs  642 µs   963 µs  1.28 ms  1.60 ms  321 µs   1000\n",
		"\n  a:1     222 µs  666 µs  1.11 ms  99.90 %  0.10 %        0        0       0    100 %\n",
		"\n  b:2          -       -        -        0       0    100 %        0       0        0  frozen\n",
		"\n  quorum  250 µs  750 µs  1.25 ms  99.00 %\n",
		"no quorum      7  no <quorum> & so on\n",
		"from 400 to 600 cycles/s, 1 s each",
	} {
		assert.Contains(t, text, want)
	}
	for line := range strings.Lines(text) {
		assert.Equal(t, strings.TrimRight(line, " \n")+"\n", line)
	}

	r := sample()
	r.Corrected, r.Asked, r.NotBegun, r.Interrupted = false, 0, 0, true
	text = printed(t, benchCmd{}, r)
	assert.Contains(t, text, "Uncorrected: a caller that is kept waiting")
	assert.Contains(t, text, "500 cycles/s: 1000 acquired and released, 7 failed (interrupted)")

	r.Failures[0].Kind = benchreport.Unfinished
	assert.Contains(t, printed(t, benchCmd{}, r), "1000 acquired and released, 7 still waiting at the end (interrupted)")
	r.Names = benchreport.Hot
	assert.NotContains(t, printed(t, benchCmd{}, r), "decided")
}

func TestReport_WithoutACycleCanBePrinted(t *testing.T) {
	r := sample()
	none := benchreport.Latency{Curve: []benchreport.Point{}}
	r.Result = &benchreport.Result{Elapsed: 1, Latency: []benchreport.Latency{none}, Nodes: []benchreport.Node{{Addr: "a:1", Latency: none}}, Quorum: none}
	assert.Contains(t, printed(t, benchCmd{}, r), "0 cycles/s: 0 acquired and released")
}
