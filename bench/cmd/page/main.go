// Command page draws what "redlock bench --json" has printed: it reads that from stdin and writes an HTML page with tables and
// charts to stdout, or with -svg the charts alone.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"

	"github.com/quorumlock/quorumlock/bench/internal/chart"
	"github.com/quorumlock/quorumlock/internal/benchreport"
)

func main() {
	svg := flag.Bool("svg", false, "write the charts alone, as an SVG document")
	flag.Parse()
	render := page
	if *svg {
		render = drawing
	}
	if err := run(os.Stdin, os.Stdout, render); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// run writes nothing unless all of the report could be read and drawn.
func run(in io.Reader, out io.Writer, render func(*benchreport.Report) ([]byte, error)) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var r benchreport.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("stdin is not what redlock bench --json prints: %w", err)
	}
	if r.Result == nil {
		return errors.New("stdin is not what redlock bench --json prints: there is no result in it")
	}
	document, err := render(&r)
	if err != nil {
		return err
	}
	_, err = out.Write(document)
	return err
}

// charts draws the percentiles, the throughput and the nodes, as an SVG document each.
func charts(r *benchreport.Report) ([][]byte, error) {
	var failed []error
	var list [][]byte
	add := func(svg []byte, err error) {
		list, failed = append(list, svg), append(failed, err)
	}

	var curves []chart.Line
	for _, l := range r.Latency {
		if l.Count == 0 || l.What == benchreport.Queueing {
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
	group := func(name string, l benchreport.Latency) {
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

// bar is a latency in milliseconds, or no bar if nothing was measured.
func bar(l benchreport.Latency, us float64) float64 {
	if l.Count == 0 {
		return math.NaN()
	}
	return max(us, 1) / 1e3
}

// drawing returns the charts in one SVG document, one below the other.
func drawing(r *benchreport.Report) ([]byte, error) {
	list, err := charts(r)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d">`,
		chart.Width, len(list)*chart.Height)
	for i, svg := range list {
		b.Write(bytes.Replace(svg, []byte("<svg "), fmt.Appendf(nil, `<svg y="%d" `, i*chart.Height), 1))
	}
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

// page returns the report as an HTML document that needs no other file.
func page(r *benchreport.Report) ([]byte, error) {
	svg, err := drawing(r)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = pageTemplate.Execute(&b, map[string]any{
		"Head": r.Headline(), "Tables": r.Tables(),
		"Charts": template.HTML(svg), //nolint:gosec // its texts are escaped
	})
	return b.Bytes(), err
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))
