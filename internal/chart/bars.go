package chart

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	groupWidth = 0.76 // of the room of a group: the rest is between two
	barWidth   = 0.92 // of the room of a bar
	widestBar  = 60
)

// place is that of a series in each group.
type place struct{ index, of int }

// sides returns where the series' bar in a group begins and ends.
func (s place) sides(c *draw.Canvas, p *plot.Plot, group int) (left, right vg.Length) {
	x, _ := p.Transforms(c)
	room := min((x(1)-x(0))*groupWidth/vg.Length(s.of), widestBar)
	center := x(float64(group)) + room*(vg.Length(s.index)-vg.Length(s.of-1)/2)
	return center - room*barWidth/2, center + room*barWidth/2
}

// bars draws one bar of each group. They stand on the lower end of the axis, or on
// zero where that is higher up.
type bars struct {
	values []float64
	place
	fill color.Color
}

// Plot implements [plot.Plotter].
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	foot := y(max(p.Y.Min, min(0, p.Y.Max)))
	for i, v := range b.values {
		if !math.IsNaN(v) {
			left, right := b.sides(&c, p, i)
			c.FillPolygon(b.fill, box(left, foot, right, y(v)))
		}
	}
}

// DataRange implements [plot.DataRanger].
func (b *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	ymin, ymax = math.Inf(1), math.Inf(-1)
	for _, v := range b.values {
		if !math.IsNaN(v) {
			ymin, ymax = min(ymin, v), max(ymax, v)
		}
	}
	return -0.5, float64(len(b.values)) - 0.5, ymin, ymax
}

// Thumbnail implements [plot.Thumbnailer].
func (b *bars) Thumbnail(c *draw.Canvas) { square(c, b.fill) }

// square is the sample of a series in the legend.
func square(c *draw.Canvas, fill color.Color) {
	middle := (c.Min.X + c.Max.X) / 2
	half := (c.Max.Y - c.Min.Y) / 2
	c.FillPolygon(fill, box(middle-half, c.Min.Y, middle+half, c.Max.Y))
}

// box is a rectangle.
func box(left, low, right, high vg.Length) []vg.Point {
	return []vg.Point{{X: left, Y: low}, {X: left, Y: high}, {X: right, Y: high}, {X: right, Y: low}}
}
