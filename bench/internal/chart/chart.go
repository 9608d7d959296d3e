// Package chart draws line and bar charts as SVG with gonum/plot: 800 x 420 on white, so that they are
// readable on a light page and on a dark one. Text stays text, in whichever sans-serif font the
// viewer has.
package chart

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of a chart.
const (
	Width  = 800
	Height = 420
)

// Axes says what is around the data. The zero value is two linear axes without names.
type Axes struct {
	Title string
	X, Y  string // what the axes show, with the unit
	// LogY makes the Y axis logarithmic; its values must be above zero then. A linear axis includes zero.
	LogY bool
	// Nines is for percentiles in a chart of lines: X is from 0 to below 100, and every further nine
	// takes as much room as the one before it.
	Nines bool
}

// Line is a row of points with lines between them.
type Line struct {
	Name string // in the legend
	X, Y []float64
}

// Bars is one bar for each group. A NaN is no bar.
type Bars struct {
	Name   string    // in the legend
	Values []float64 // Values[i] belongs to the i-th group
	// Least and Most, if not nil, make bar i a range from Least[i] to Most[i] with a mark at Values[i].
	Least, Most []float64
}

// palette is that of Okabe and Ito, whose colours differ for the colour-blind too.
var palette = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
	color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
	color.RGBA{R: 0x33, G: 0x33, B: 0x33, A: 0xff},
}

// Lines returns a chart of lines, as an SVG document that can also stand inside HTML.
func Lines(axes Axes, lines []Line) ([]byte, error) {
	return axes.draw(func(p *plot.Plot, legend *plot.Legend) error {
		for i, l := range lines {
			style := draw.LineStyle{Color: palette[i%len(palette)], Width: 2}
			legend.Add(l.Name, &plotter.Line{LineStyle: style})
			if len(l.X) == 0 {
				continue
			}
			points := make(plotter.XYs, len(l.X))
			for j, x := range l.X {
				points[j] = plotter.XY{X: x, Y: l.Y[j]}
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return fmt.Errorf("line %q: %w", l.Name, err)
			}
			line.LineStyle = style
			p.Add(line)
			if len(l.X) <= 40 {
				dots.GlyphStyle = draw.GlyphStyle{Color: style.Color, Radius: 2.6, Shape: draw.CircleGlyph{}}
				p.Add(dots)
			}
		}
		return nil
	})
}

// GroupedBars returns a chart with a group of bars for each of groups.
func GroupedBars(axes Axes, groups []string, series []Bars) ([]byte, error) {
	return axes.draw(func(p *plot.Plot, legend *plot.Legend) error {
		for i, s := range series {
			b := &bars{s, palette[i%len(palette)], i, len(series)}
			p.Add(b)
			legend.Add(s.Name, b)
			for _, v := range slices.Concat(s.Least, s.Values, s.Most) {
				if !math.IsNaN(v) {
					p.Y.Min, p.Y.Max = min(p.Y.Min, v), max(p.Y.Max, v)
				}
			}
		}
		p.NominalX(groups...)
		p.X.Min, p.X.Max = -0.5, float64(len(groups))-0.5
		label := &p.X.Tick.Label
		for _, name := range groups {
			if label.Width(name) > vg.Length(600/len(groups)) { // they do not fit beside each other
				label.Rotation, label.XAlign, label.YAlign = math.Pi/2, draw.XRight, draw.YCenter
			}
		}
		return nil
	})
}

// bars draws one bar of each group. Without Least they stand on the X axis, and have no mark.
type bars struct {
	Bars
	color.Color
	index, of int // the place of the bar in its group
}

// Plot implements [plot.Plotter].
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	room := min((x(1)-x(0))*0.76/vg.Length(b.of), 60)
	for i, value := range b.Values {
		if math.IsNaN(value) {
			continue
		}
		left := x(float64(i)) + room*(vg.Length(b.index)-vg.Length(b.of)/2)
		right, low, high := left+room*0.92, c.Min.Y, y(value)
		if b.Least != nil {
			low, high = y(b.Least[i]), y(b.Most[i])
		}
		if high-low < 2.5 { // a range of one value is to be seen too
			low, high = high-1.25, high+1.25
		}
		fill(&c, b.Color, left, low, right, high)
		if b.Least != nil && high-low > 6 {
			fill(&c, color.White, left, y(value)-1, right, y(value)+1)
		}
	}
}

// Thumbnail implements [plot.Thumbnailer].
func (b *bars) Thumbnail(c *draw.Canvas) { fill(c, b.Color, c.Min.X, c.Min.Y, c.Max.X, c.Max.Y) }

// fill draws a rectangle.
func fill(c *draw.Canvas, ink color.Color, left, low, right, high vg.Length) {
	c.FillPolygon(ink, []vg.Point{{X: left, Y: low}, {X: left, Y: high}, {X: right, Y: high}, {X: right, Y: low}})
}

// draw draws a chart whose data add adds.
func (a Axes) draw(add func(*plot.Plot, *plot.Legend) error) (svg []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // gonum/plot panics if it cannot place something
			svg, err = nil, fmt.Errorf("chart %q: %v", a.Title, p)
		}
	}()
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = a.Title, a.X, a.Y
	p.Title.Padding = 14
	legend.Top, legend.Left, legend.Padding = true, true, 7
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size = 16
	p.Add(plotter.NewGrid())
	if a.Nines {
		p.X.Scale = nines{}
		p.X.Tick.Marker = plot.ConstantTicks{tick(0), tick(50), tick(90), tick(99), tick(99.9), tick(99.99), tick(99.999), tick(99.9999)}
	}
	if err := add(p, &legend); err != nil {
		return nil, fmt.Errorf("chart %q: %w", a.Title, err)
	}
	p.X.Padding, p.Y.Padding = 0, 0 // beside the data
	if p.Y.Min > p.Y.Max {          // there is no data
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 1, 10
	}
	switch {
	case math.IsInf(p.Y.Max, 0) || a.LogY && p.Y.Min <= 0:
		return nil, fmt.Errorf("chart %q: values from %v to %v have no place on the Y axis", a.Title, p.Y.Min, p.Y.Max)
	case a.LogY:
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
		p.Y.Min, p.Y.Max = floor125(p.Y.Min/1.01), floor125(p.Y.Max*2.5)
	default:
		p.Y.Min, p.Y.Max = min(0, p.Y.Min), max(1e-3, p.Y.Max)*1.05
	}
	page := vgsvg.New(Width, Height)
	all := draw.New(page)
	fill(&all, color.White, 0, 0, Width, Height)
	data := draw.Crop(all, 16, -150, 16, -16)
	p.Draw(data)
	beside := draw.Crop(all, Width-134, 0, 0, 0)
	beside.Max.Y = p.DataCanvas(data).Max.Y
	legend.Draw(beside)
	var b bytes.Buffer
	_, _ = page.WriteTo(&b) // a buffer takes everything
	// A head that also fits into HTML, and generic fonts.
	_, body, _ := strings.Cut(b.String(), `xmlns:xlink="http://www.w3.org/1999/xlink">`)
	body = strings.ReplaceAll(body, "font-family:Liberation Sans;", "font-family:Arial, 'Liberation Sans', Helvetica, sans-serif;")
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="%[3]s">
<title>%[3]s</title>%[4]s`, Width, Height, html.EscapeString(a.Title), body), nil
}

// floor125 returns the highest of 1, 2 and 5 times a power of ten that is not above v.
func floor125(v float64) float64 {
	v *= 1 + 1e-9 // for what is rounded
	power := math.Pow10(int(math.Floor(math.Log10(v))))
	for _, factor := range []float64{5, 2} {
		if factor*power <= v {
			return factor * power
		}
	}
	return power
}

// logTicks are at 1, 2 and 5 times powers of ten.
func logTicks(low, high float64) (ticks []plot.Tick) {
	for v := floor125(low); v <= high*(1+1e-9); v = floor125(v * 2.5) {
		ticks = append(ticks, tick(v))
	}
	return ticks
}

func tick(v float64) plot.Tick {
	return plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 10, 64)}
}

// nines is an axis of percentiles on which 90, 99, 99.9 and so on are at equal distances.
type nines struct{}

// Normalize implements [plot.Normalizer].
func (nines) Normalize(low, high, x float64) float64 {
	depth := func(percentile float64) float64 { return math.Log10(1 - percentile/100) }
	return (depth(x) - depth(low)) / (depth(high) - depth(low))
}
