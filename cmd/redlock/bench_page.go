package main

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"math"

	"github.com/quorumlock/quorumlock/internal/chart"
	"github.com/quorumlock/quorumlock/internal/load"
)

// charts draws the report: percentiles, throughput and nodes.
func (r *report) charts() ([][]byte, error) {
	var failed []error
	var list [][]byte
	add := func(svg []byte, err error) {
		list, failed = append(list, svg), append(failed, err)
	}

	var curves []chart.Line
	for _, l := range r.Latency {
		if l.Count == 0 || l.What == load.Late {
			continue
		}
		line := chart.Line{Name: l.What}
		for _, point := range l.Curve {
			line.X, line.Y = append(line.X, point.Percentile), append(line.Y, max(point.Micros, 1)/1e3)
		}
		curves = append(curves, line)
	}
	title := "Latency, uncorrected for coordinated omission"
	if r.Corrected {
		title = "Latency, corrected for coordinated omission"
	}
	add(chart.Lines(chart.Axes{Title: title, X: "percentile", Y: "latency (ms)", LogY: true, Nines: true}, curves))

	done, failures, asked := chart.Line{Name: "succeeded"}, chart.Line{Name: "failed"}, chart.Line{Name: "asked for"}
	for _, b := range r.Throughput {
		at := b.From + b.Length/2
		done.X, done.Y = append(done.X, at), append(done.Y, b.CyclesPer)
		failures.X, failures.Y = append(failures.X, at), append(failures.Y, b.FailedPer)
		asked.X, asked.Y = append(asked.X, at), append(asked.Y, r.Asked)
	}
	lines := []chart.Line{done, failures}
	if r.Corrected {
		lines = append(lines, asked)
	}
	add(chart.Lines(chart.Axes{Title: "Throughput over time", X: "time (s)", Y: "cycles/s"}, lines))

	var groups []string
	p50, p99 := chart.Bars{Name: "p50"}, chart.Bars{Name: "p99"}
	group := func(name string, l load.Latency) {
		groups = append(groups, name)
		p50.Values, p99.Values = append(p50.Values, bar(l, l.P50)), append(p99.Values, bar(l, l.P99))
	}
	for _, node := range r.Nodes {
		group(node.Addr, node.Latency)
	}
	group("quorum", r.Quorum)
	add(chart.GroupedBars(chart.Axes{Title: "Latency of each node and of the quorum", Y: "latency (ms)", LogY: true},
		groups, []chart.Bars{p50, p99}))
	return list, errors.Join(failed...)
}

// bar is a latency in milliseconds, or no bar where there was none.
func bar(l load.Latency, us float64) float64 {
	if l.Count == 0 {
		return math.NaN()
	}
	return max(us, 1) / 1e3
}

// drawing is the charts in one SVG document, one below the other.
func drawing(r *report) ([]byte, error) {
	charts, err := r.charts()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n", chart.Width, len(charts)*chart.Height)
	for i, svg := range charts {
		b.Write(bytes.Replace(svg, []byte("<svg "), fmt.Appendf(nil, `<svg y="%d" `, i*chart.Height), 1))
	}
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

// page is the report as an HTML document that needs nothing else.
func page(r *report) ([]byte, error) {
	drawn, err := r.charts()
	if err != nil {
		return nil, err
	}
	charts := make([]template.HTML, len(drawn))
	for i, svg := range drawn {
		charts[i] = template.HTML(svg) //nolint:gosec // its texts are escaped
	}
	var b bytes.Buffer
	err = pageTemplate.Execute(&b, struct {
		Head   []string
		Sheets []sheet
		Charts []template.HTML
	}{r.headline(), r.sheets(), charts})
	return b.Bytes(), err
}

var pageTemplate = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>redlock bench</title>
<style>
:root { color-scheme: light dark; --ink: #24292f; --paper: #ffffff; --line: #d0d7de; --soft: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --soft: #9198a1; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.wide th:last-child, .wide td:last-child { text-align: left; white-space: normal; }
p.note { color: var(--soft); font-size: .9rem; }
svg { max-width: 100%; height: auto; border-radius: 6px; display: block; margin: 1rem 0; }
</style>
</head>
<body>
<h1>redlock bench</h1>
{{range .Head}}<p>{{.}}</p>
{{end}}{{range .Sheets}}<h2>{{.Title}}</h2>
<div class="table"><table{{if .Wide}} class="wide"{{end}}>
<tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table></div>
{{range .Notes}}<p class="note">{{.}}</p>
{{end}}{{end}}<h2>Charts</h2>
{{range .Charts}}{{.}}
{{end}}</body>
</html>
`))
