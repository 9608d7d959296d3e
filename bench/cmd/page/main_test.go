package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/benchreport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample returns a report with something in everything that is drawn.
func sample() *benchreport.Report {
	latency := func(what string, us float64) benchreport.Latency {
		return benchreport.Latency{What: what, Count: 1000, P50: us, P99: 3 * us, Curve: []benchreport.Point{{Percentile: 0, Micros: us / 2}, {Percentile: 99.9, Micros: 4 * us}}}
	}
	none := benchreport.Latency{What: benchreport.Refusal}
	return &benchreport.Report{Kind: "redis-server processes", Names: "distinct", Result: &benchreport.Result{
		CyclesPer: 500, Asked: 600, Corrected: true,
		Latency:  []benchreport.Latency{latency(benchreport.Acquire, 321), latency(benchreport.Release, 123), latency(benchreport.Cycle, 444), latency(benchreport.Service, 300), latency(benchreport.Queueing, 21), none},
		Failures: []benchreport.Failure{{Op: "acquire", Kind: "no_quorum", Count: 7, Example: "no <quorum> & so on"}},
		Nodes: []benchreport.Node{
			{Addr: "a:1", Answers: map[string]int64{"yes": 999, "no": 1}, Latency: latency("answer", 222)},
			{Addr: "b:2", Answers: map[string]int64{"unknown": 1000}, Latency: none},
		},
		Quorum:     latency("quorum", 250),
		Throughput: []benchreport.Bucket{{From: 0, Length: 1, CyclesPer: 400, FailedPer: 3}, {From: 1, Length: 1, CyclesPer: 600, FailedPer: 4}},
	}}
}

// drawn returns what run writes for a report in JSON.
func drawn(t *testing.T, r *benchreport.Report, render func(*benchreport.Report) ([]byte, error)) string {
	t.Helper()
	var in, out bytes.Buffer
	require.NoError(t, json.NewEncoder(&in).Encode(r))
	require.NoError(t, run(&in, &out, render))
	return out.String()
}

// wellFormed parses a document and returns its texts.
func wellFormed(t *testing.T, document string) string {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(document))
	var texts strings.Builder
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts.String()
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.CharData:
			texts.Write(token)
			texts.WriteByte('\n')
		case xml.StartElement:
			for _, attr := range token.Attr {
				if attr.Name.Local == "src" || attr.Name.Local == "href" {
					assert.Fail(t, "a reference to elsewhere", attr.Value)
				}
			}
		}
	}
}

func TestPage_AndDrawingAreWellFormedAndHoldEverySeries(t *testing.T) {
	series := []string{benchreport.Acquire, benchreport.Release, benchreport.Cycle, benchreport.Service, "succeeded", "failed", "asked for",
		"p50", "p99", "a:1", "b:2", "\nquorum\n", "Throughput over time", "99.9", "latency (ms)"}
	texts := wellFormed(t, drawn(t, sample(), drawing))
	for _, want := range series {
		assert.Contains(t, texts, want)
	}
	for _, none := range []string{benchreport.Queueing, benchreport.Refusal, "0.001"} {
		assert.NotContains(t, texts, none, "what was not measured has no curve and no bar")
	}
	html := drawn(t, sample(), page)
	texts = wellFormed(t, html)
	for _, want := range append(series, "321 µs", "99.90 %", "no <quorum> & so on", "of 600 that were asked for") {
		assert.Contains(t, texts, want)
	}
	assert.Equal(t, 1+3, strings.Count(html, "<svg "))
	assert.NotContains(t, html, "@import")
	assert.Equal(t, 1+3, strings.Count(html, "http://"), "only the namespace of each chart")
}

func TestPage_WithoutACycleCanBeDrawn(t *testing.T) {
	r := &benchreport.Report{Result: &benchreport.Result{Elapsed: 1, Latency: []benchreport.Latency{{}}, Nodes: []benchreport.Node{{Addr: "a:1"}}}}
	assert.Contains(t, drawn(t, r, page), "0 cycles/s: 0 acquired and released")
	assert.Contains(t, drawn(t, r, drawing), "a:1")
}

func TestPage_OfAnythingElseIsAnErrorAndNothingIsWritten(t *testing.T) {
	for in, want := range map[string]string{"": "unexpected end", "64 callers": "invalid character", "{}": "no result", `{"elapsed_s": 1}{}`: "after top-level value"} {
		var out bytes.Buffer
		err := run(strings.NewReader(in), &out, page)
		require.ErrorContains(t, err, "stdin is not what redlock bench --json prints", in)
		require.ErrorContains(t, err, want)
		assert.Empty(t, out.String())
	}
}
