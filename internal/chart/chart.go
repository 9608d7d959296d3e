// Package chart draws line and bar charts as SVG: 800 x 420 on white, so that they
// are readable on a light page and on a dark one, with text as text in whichever
// sans-serif font the viewer has.
package chart

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Axes says what is around the data. The zero value is two linear axes without names.
type Axes struct {
	Title string
	X, Y  string // what the axes show, with the unit
	// LogY makes the Y axis logarithmic; its values must be above zero then. A linear
	// one includes zero.
	LogY bool
	// Nines is for percentiles: X is from 0 to below 100, and every further nine takes
	// as much room as the one before it.
	Nines bool
}

// Line is a row of points with lines between them. A NaN in Y is a gap.
type Line struct {
	Name string // in the legend; nothing is there for an empty one
	X, Y []float64
}

// Bars is one bar for each group. A NaN is no bar.
type Bars struct {
	Name   string    // in the legend; nothing is there for an empty one
	Values []float64 // Values[i] belongs to the i-th group
}

// Ranges is one bar for each group, from the least to the most, with a mark between them. A NaN in Middle is none.
type Ranges struct {
	Name                string // in the legend; nothing is there for an empty one
	Least, Middle, Most []float64
}

// Lines returns a chart of lines, as an SVG document that can also stand inside HTML.
// The error names the line that cannot be drawn.
func Lines(axes Axes, lines []Line) ([]byte, error) {
	c, err := newCanvas(axes)
	if err != nil {
		return nil, err
	}
	drawn := false
	for i, line := range lines {
		if len(line.X) != len(line.Y) {
			return nil, fmt.Errorf("chart: line %q: %d X and %d Y", line.Name, len(line.X), len(line.Y))
		}
		style := look(i)
		for j, x := range line.X {
			if err := c.fits(x, line.Y[j]); err != nil {
				return nil, fmt.Errorf("chart: line %q: point %d: %w", line.Name, j, err)
			}
		}
		for _, run := range runs(line) {
			part, err := plotter.NewLine(run)
			if err != nil {
				return nil, fmt.Errorf("chart: line %q: %w", line.Name, err)
			}
			part.LineStyle = style
			c.plot.Add(part)
			if len(run) <= mostDots {
				c.plot.Add(&dots{points: run, style: dot(style)})
			}
			drawn = true
		}
		c.name(line.Name, &plotter.Line{LineStyle: style})
	}
	if !drawn {
		c.plot.X.Min, c.plot.X.Max = 0, 1
	}
	return c.svg()
}

// GroupedBars returns a chart with a group of bars for each of groups, as an SVG
// document that can also stand inside HTML. The error names the bars that cannot be drawn.
func GroupedBars(axes Axes, groups []string, series []Bars) ([]byte, error) {
	c, err := newGrouped(axes)
	if err != nil {
		return nil, err
	}
	for i, b := range series {
		if err := c.fitsGroups(groups, b.Values); err != nil {
			return nil, fmt.Errorf("chart: bars %q: %w", b.Name, err)
		}
		drawn := &bars{b.Values, place{i, len(series)}, look(i).Color}
		c.plot.Add(drawn)
		c.name(b.Name, drawn)
	}
	c.groups(groups)
	return c.svg()
}

// GroupedRanges is GroupedBars for ranges.
func GroupedRanges(axes Axes, groups []string, series []Ranges) ([]byte, error) {
	c, err := newGrouped(axes)
	if err != nil {
		return nil, err
	}
	for i, r := range series {
		if err := c.fitsGroups(groups, r.Least, r.Middle, r.Most); err != nil {
			return nil, fmt.Errorf("chart: ranges %q: %w", r.Name, err)
		}
		drawn := &ranges{r, place{i, len(series)}, look(i).Color}
		c.plot.Add(drawn)
		c.name(r.Name, drawn)
	}
	c.groups(groups)
	return c.svg()
}

func newGrouped(axes Axes) (*canvas, error) {
	if axes.Nines {
		return nil, errors.New("chart: the X axis of bars has groups, not percentiles")
	}
	return newCanvas(axes)
}

// fitsGroups says why a value of each group cannot be drawn.
func (c *canvas) fitsGroups(groups []string, all ...[]float64) error {
	for _, values := range all {
		if len(values) != len(groups) {
			return fmt.Errorf("%d values for %d groups", len(values), len(groups))
		}
		for i, v := range values {
			if err := c.fits(float64(i), v); err != nil {
				return fmt.Errorf("group %q: %w", groups[i], err)
			}
		}
	}
	return nil
}

// fits says why a point cannot be drawn.
func (c *canvas) fits(x, y float64) error {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0) || math.IsInf(y, 0):
		return fmt.Errorf("(%v, %v) is nowhere", x, y)
	case c.axes.Nines && (x < 0 || x >= 100):
		return fmt.Errorf("%v is not from 0 to below 100", x)
	case c.axes.LogY && y <= 0:
		return fmt.Errorf("%v has no place on a logarithmic axis", y)
	}
	return nil
}

// runs splits a line at its gaps.
func runs(line Line) []plotter.XYs {
	var all []plotter.XYs
	open := false
	for i, y := range line.Y {
		if math.IsNaN(y) {
			open = false
			continue
		}
		if !open {
			all = append(all, nil)
			open = true
		}
		last := &all[len(all)-1]
		*last = append(*last, plotter.XY{X: line.X[i], Y: y})
	}
	return all
}

// mostDots is up to how many points of a line are marked.
const mostDots = 40

// dots marks the points of a line.
type dots struct {
	points plotter.XYs
	style  draw.GlyphStyle
}

// Plot implements [plot.Plotter].
func (d *dots) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, point := range d.points {
		c.DrawGlyph(d.style, vg.Point{X: x(point.X), Y: y(point.Y)})
	}
}
