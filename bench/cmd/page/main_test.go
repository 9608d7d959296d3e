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

	"github.com/quorumlock/quorumlock/internal/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample returns a report with something in everything that is drawn.
func sample() *load.Report {
	latency := func(what string, us float64) load.Latency {
		return load.Latency{What: what, Count: 1000, P50: us, P99: 3 * us, Curve: []load.Point{{Percentile: 0, Micros: us / 2}, {Percentile: 99.9, Micros: 4 * us}}}
	}
	none := load.Latency{What: load.Refusal}
	return &load.Report{Kind: "redis-server processes", Names: "distinct", Result: &load.Result{
		CyclesPer: 500, Asked: 600, Corrected: true,
		Latency:  []load.Latency{latency(load.Acquire, 321), latency(load.Release, 123), latency(load.Cycle, 444), latency(load.Service, 300), latency(load.Queueing, 21), none},
		Failures: []load.Failure{{Op: "acquire", Kind: "no_quorum", Count: 7, Example: "no <quorum> & so on"}},
		Nodes: []load.Node{
			{Addr: "a:1", Answers: map[string]int64{"yes": 999, "no": 1}, Latency: latency("answer", 222)},
			{Addr: "b:2", Answers: map[string]int64{"unknown": 1000}, Latency: none},
		},
		Quorum:     latency("quorum", 250),
		Throughput: []load.Bucket{{From: 0, Length: 1, CyclesPer: 400, FailedPer: 3}, {From: 1, Length: 1, CyclesPer: 600, FailedPer: 4}},
	}}
}

// drawn returns what run writes for a report in JSON.
func drawn(t *testing.T, r *load.Report, render func(*load.Report) ([]byte, error)) string {
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
	series := []string{load.Acquire, load.Release, load.Cycle, load.Service, "succeeded", "failed", "asked for",
		"p50", "p99", "a:1", "b:2", "\nquorum\n", "Throughput over time", "99.9", "latency (ms)"}
	texts := wellFormed(t, drawn(t, sample(), drawing))
	for _, want := range series {
		assert.Contains(t, texts, want)
	}
	for _, none := range []string{load.Queueing, load.Refusal, "0.001"} {
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
	r := &load.Report{Result: &load.Result{Elapsed: 1, Latency: []load.Latency{{}}, Nodes: []load.Node{{Addr: "a:1"}}}}
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
