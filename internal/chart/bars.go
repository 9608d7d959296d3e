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

// bars draws one bar of each group. They stand on the lower end of the axis, or on
// zero where that is higher up.
type bars struct {
	values    []float64
	index, of int // the bar's place in its group
	fill      color.Color
}

// Plot implements [plot.Plotter].
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	room := min((x(1)-x(0))*groupWidth/vg.Length(b.of), widestBar)
	foot := y(max(p.Y.Min, min(0, p.Y.Max)))
	for i, v := range b.values {
		if math.IsNaN(v) {
			continue
		}
		center := x(float64(i)) + room*(vg.Length(b.index)-vg.Length(b.of-1)/2)
		left, right := center-room*barWidth/2, center+room*barWidth/2
		c.FillPolygon(b.fill, []vg.Point{{X: left, Y: foot}, {X: left, Y: y(v)}, {X: right, Y: y(v)}, {X: right, Y: foot}})
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
func (b *bars) Thumbnail(c *draw.Canvas) {
	middle := (c.Min.X + c.Max.X) / 2
	half := (c.Max.Y - c.Min.Y) / 2
	c.FillPolygon(b.fill, []vg.Point{
		{X: middle - half, Y: c.Min.Y}, {X: middle - half, Y: c.Max.Y},
		{X: middle + half, Y: c.Max.Y}, {X: middle + half, Y: c.Min.Y},
	})
}
