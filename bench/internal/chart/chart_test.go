package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/chart"
)

// document is what is in an SVG.
type document struct {
	texts []string
	paths map[string]int // how many paths have a colour
}

// parse reads an SVG to its end, which fails where it is not well-formed.
func parse(t *testing.T, svg []byte) document {
	t.Helper()
	if dir := os.Getenv("CHART_DIR"); dir != "" { // to look at them
		name := strings.NewReplacer("/", "_").Replace(t.Name())
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".svg"), svg, 0o600))
	}
	d := document{paths: map[string]int{}}
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	root, text := "", false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			if root == "" {
				root = token.Name.Local
			}
			text = token.Name.Local == "text"
			for _, attr := range token.Attr {
				assert.NotContains(t, attr.Value, "NaN")
				assert.NotContains(t, attr.Value, "Inf")
				if token.Name.Local == "path" && attr.Name.Local == "style" {
					for property := range strings.SplitSeq(attr.Value, ";") {
						d.paths[property]++
					}
				}
			}
		case xml.CharData:
			if text {
				d.texts = append(d.texts, string(token))
			}
			text = false
		}
	}
	assert.Equal(t, "svg", root)
	assert.NotContains(t, string(svg), "Liberation Sans;")
	return d
}

func TestLines_HaveNamesColoursAndAxes(t *testing.T) {
	axes := chart.Axes{Title: "Latency of <one> cycle & more", X: "percentile", Y: "latency (µs)", LogY: true, Nines: true}
	var lines []chart.Line
	for i, name := range []string{"acquire", "release", "cycle"} {
		line := chart.Line{Name: name}
		for depth := 0.0; depth <= 4; depth += 0.05 {
			line.X = append(line.X, 100-math.Pow(10, 2-depth))
			line.Y = append(line.Y, 200*float64(i+1)*math.Exp(depth*0.8))
		}
		lines = append(lines, line)
	}
	svg, err := chart.Lines(axes, lines)
	require.NoError(t, err)
	d := parse(t, svg)
	for _, want := range []string{axes.Title, "percentile", "latency (µs)", "acquire", "release", "cycle",
		"0", "50", "90", "99", "99.9", "99.99", "200", "1000", "10000"} {
		assert.Contains(t, d.texts, want)
	}
	for _, c := range []string{"#0072B2", "#D55E00", "#009E73"} {
		assert.Equal(t, 2, d.paths["stroke:"+c], "the line and its sample in the legend")
	}
}

func TestLines_MarksThePointsOfShortLines(t *testing.T) {
	svg, err := chart.Lines(chart.Axes{Title: "Throughput", X: "time (s)", Y: "cycles/s"}, []chart.Line{
		{Name: "asked", X: []float64{0, 1, 2, 3, 4}, Y: []float64{2000, 2000, 2000, 2000, 2000}},
		{Name: "achieved", X: []float64{0, 1, 2, 3, 4}, Y: []float64{1990, 2004, 1800, 0, 1523}},
		{Name: "once", X: []float64{2.5}, Y: []float64{800}},
	})
	require.NoError(t, err)
	d := parse(t, svg)
	assert.Equal(t, 2, d.paths["stroke:#D55E00"], "the line and its sample in the legend")
	assert.Equal(t, 5, d.paths["fill:#D55E00"], "its dots")
	assert.Equal(t, 1, d.paths["fill:#009E73"], "the dot")
	for _, want := range []string{"0", "1000", "2000", "4"} {
		assert.Contains(t, d.texts, want)
	}
}

func TestGroupedBars_OmitsANaN(t *testing.T) {
	for _, log := range []bool{false, true} {
		t.Run(fmt.Sprint("log ", log), func(t *testing.T) {
			svg, err := chart.GroupedBars(chart.Axes{Title: "Latency of each node", Y: "latency (µs)", LogY: log},
				[]string{"127.0.0.1:10001", "127.0.0.1:10002", "127.0.0.1:10003", "quorum"}, []chart.Bars{
					{Name: "p50", Values: []float64{310, 290, math.NaN(), 305}},
					{Name: "p99", Values: []float64{1210, 990, 52300, 1100}},
				})
			require.NoError(t, err)
			d := parse(t, svg)
			assert.Equal(t, 4, d.paths["fill:#0072B2"], "three bars and the sample")
			assert.Equal(t, 5, d.paths["fill:#D55E00"])
			for _, want := range []string{"127.0.0.1:10003", "quorum", "p50", "p99"} {
				assert.Contains(t, d.texts, want)
			}
		})
	}
}

func TestGroupedBars_MarksTheValueAndShowsARangeOfOneValue(t *testing.T) {
	nan := math.NaN()
	svg, err := chart.GroupedBars(chart.Axes{Title: "Waits", Y: "wait (ms)", LogY: true}, []string{"p50", "p99", "longest"}, []chart.Bars{
		{Name: "fair", Least: []float64{3, 5, 9}, Values: []float64{3, 5, 9}, Most: []float64{3, 5, 9}},
		{Name: "unfair", Least: []float64{0.2, nan, 80}, Values: []float64{0.3, nan, 1100}, Most: []float64{90, nan, 1300}},
	})
	require.NoError(t, err)
	d := parse(t, svg)
	assert.Equal(t, 4, d.paths["fill:#0072B2"], "three ranges and the sample")
	assert.Equal(t, 3, d.paths["fill:#D55E00"])
	assert.Equal(t, 2+2, d.paths["fill:#FFFFFF"], "the page, the background of the data, and two marks")
	for _, want := range []string{"longest", "fair", "unfair", "0.1", "1000"} {
		assert.Contains(t, d.texts, want)
	}
}

func TestGroupedBars_TurnsLongNames(t *testing.T) {
	groups := make([]string, 9)
	for i := range groups {
		groups[i] = fmt.Sprintf("a-rather-long-host-%d.example:6379", i)
	}
	svg, err := chart.GroupedBars(chart.Axes{Title: "Many"}, groups, []chart.Bars{{Values: make([]float64, len(groups))}})
	require.NoError(t, err)
	assert.Contains(t, parse(t, svg).texts, groups[8])
	assert.Contains(t, string(svg), "rotate(", "upright, as they do not fit beside each other")
}

func TestLines_AreAnEmptyChartWithoutData(t *testing.T) {
	for _, axes := range []chart.Axes{{}, {LogY: true}, {Nines: true}} {
		svg, err := chart.Lines(axes, []chart.Line{{Name: "empty"}})
		require.NoError(t, err)
		assert.Contains(t, parse(t, svg).texts, "empty")
	}
	for _, groups := range [][]string{{"a"}} {
		svg, err := chart.GroupedBars(chart.Axes{LogY: true}, groups, nil)
		require.NoError(t, err)
		parse(t, svg)
	}
}

func TestErrors_NameWhatCannotBeDrawn(t *testing.T) {
	for want, err := range map[string]error{
		`index out of range [1]`:        second(chart.Lines(chart.Axes{}, []chart.Line{{Name: "a", X: []float64{1, 2}, Y: []float64{1}}})),
		`line "a": plotter: infinite`:   second(chart.Lines(chart.Axes{}, []chart.Line{{Name: "a", X: []float64{1}, Y: []float64{math.Inf(1)}}})),
		`chart "t": values from 0 to 1`: second(chart.Lines(chart.Axes{Title: "t", LogY: true}, []chart.Line{{X: []float64{1, 2}, Y: []float64{1, 0}}})),
		`values from -1 to -1`:          second(chart.GroupedBars(chart.Axes{LogY: true}, []string{"x"}, []chart.Bars{{Values: []float64{-1}}})),
		`index out of range`: second(chart.GroupedBars(chart.Axes{}, []string{"x", "y"},
			[]chart.Bars{{Name: "r", Least: []float64{1, 2}, Values: []float64{1, 2}, Most: []float64{1}}})),
	} {
		assert.ErrorContains(t, err, want)
	}
}

func second(_ []byte, err error) error { return err }
