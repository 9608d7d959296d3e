package chart

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
)

const (
	thinnestRange = 2.5 // so that a range of one value is seen
	notch         = 2   // the thickness of the middle's mark
)

// ranges draws one range of each group.
type ranges struct {
	Ranges
	place
	fill color.Color
}

// Plot implements [plot.Plotter].
func (r *ranges) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for i := range r.Middle {
		if math.IsNaN(r.Middle[i]) {
			continue
		}
		left, right := r.sides(&c, p, i)
		low, middle, high := y(r.Least[i]), y(r.Middle[i]), y(r.Most[i])
		if missing := thinnestRange - (high - low); missing > 0 {
			low, high = low-missing/2, high+missing/2
		}
		c.FillPolygon(r.fill, box(left, low, right, high))
		if high-low > 3*notch {
			c.FillPolygon(color.White, box(left, middle-notch/2, right, middle+notch/2))
		}
	}
}

// DataRange implements [plot.DataRanger].
func (r *ranges) DataRange() (xmin, xmax, ymin, ymax float64) {
	ymin, ymax = math.Inf(1), math.Inf(-1)
	for i := range r.Middle {
		if !math.IsNaN(r.Middle[i]) {
			ymin, ymax = min(ymin, r.Least[i]), max(ymax, r.Most[i])
		}
	}
	return -0.5, float64(len(r.Middle)) - 0.5, ymin, ymax
}

// Thumbnail implements [plot.Thumbnailer].
func (r *ranges) Thumbnail(c *draw.Canvas) { square(c, r.fill) }
