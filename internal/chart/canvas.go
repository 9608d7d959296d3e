package chart

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width, height = 800, 420
	margin        = 16
	gap           = 18 // between the data and the legend
	thumbnail     = 22
	families      = "Arial, 'Liberation Sans', Helvetica, sans-serif" // of the same widths, as far as they are there
)

var (
	ink  = color.RGBA{R: 0x24, G: 0x29, B: 0x2f, A: 0xff}
	soft = color.RGBA{R: 0x57, G: 0x60, B: 0x6a, A: 0xff}
	thin = color.RGBA{R: 0xdd, G: 0xe1, B: 0xe6, A: 0xff}

	// palette is that of Okabe and Ito, whose colours differ for the colour-blind too.
	palette = []color.Color{
		color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
		color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
		color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
		color.RGBA{R: 0x33, G: 0x33, B: 0x33, A: 0xff},
	}
	dashes = [][]vg.Length{nil, {7, 4}, {2, 3}}
)

// look is the style of the i-th series: another colour, and another dash when all
// colours are used.
func look(i int) draw.LineStyle {
	return draw.LineStyle{
		Color: palette[i%len(palette)], Width: 2, Dashes: dashes[i/len(palette)%len(dashes)],
	}
}

func dot(line draw.LineStyle) draw.GlyphStyle {
	return draw.GlyphStyle{Color: line.Color, Radius: 2.6, Shape: draw.CircleGlyph{}}
}

// canvas is a chart that is being drawn.
type canvas struct {
	axes   Axes
	plot   *plot.Plot
	grid   *plotter.Grid
	legend plot.Legend
	names  []string
	left   vg.Length // room beside the data
}

func newCanvas(axes Axes) (*canvas, error) {
	c := &canvas{axes: axes, plot: plot.New(), grid: plotter.NewGrid(), legend: plot.NewLegend()}
	for _, s := range []string{axes.Title, axes.X, axes.Y} {
		if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
			return nil, fmt.Errorf("chart: control character in %q", s)
		}
	}
	p := c.plot
	p.BackgroundColor = nil
	p.Title.Text, p.Title.Padding = axes.Title, 14
	write(&p.Title.TextStyle, 16, ink)
	p.X.Label.Text, p.Y.Label.Text = axes.X, axes.Y
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		write(&axis.Label.TextStyle, 12, soft)
		write(&axis.Tick.Label, 11.5, soft)
		axis.Label.Padding = 6
		axis.Padding = 0
		axis.LineStyle = draw.LineStyle{Color: soft, Width: 1}
		axis.Tick.LineStyle = draw.LineStyle{Color: soft, Width: 0.75}
		axis.Tick.Length = 5
		axis.Tick.Marker = linearTicks{}
	}
	if axes.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	if axes.Nines {
		p.X.Scale, p.X.Tick.Marker = nines{}, nines{}
	}
	c.grid.Horizontal = draw.LineStyle{Color: thin, Width: 0.75}
	c.grid.Vertical = c.grid.Horizontal
	p.Add(c.grid)
	write(&c.legend.TextStyle, 12, ink)
	c.legend.Top, c.legend.Left = true, true
	c.legend.ThumbnailWidth, c.legend.Padding = thumbnail, 7
	return c, nil
}

// write sets how big and in which colour a text is.
func write(style *text.Style, size font.Length, c color.Color) {
	style.Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
	style.Color = c
}

// name puts a series into the legend.
func (c *canvas) name(name string, thumb plot.Thumbnailer) {
	if name != "" {
		c.legend.Add(name, thumb)
		c.names = append(c.names, name)
	}
}

// groups puts names under groups of bars instead of numbers.
func (c *canvas) groups(names []string) {
	ticks := make(plot.ConstantTicks, len(names))
	for i, name := range names {
		ticks[i] = plot.Tick{Value: float64(i), Label: name}
	}
	c.plot.X.Tick.Marker = ticks
	c.plot.X.Tick.Color = color.Transparent
	c.grid.Vertical.Color = nil
	if c.axes.LogY {
		c.plot.Y.Min /= 1.5 // the shortest bar is to be seen too
	}
	c.plot.X.Min, c.plot.X.Max = -0.5, float64(max(1, len(names)))-0.5
	if len(names) > 0 {
		longest := vg.Length(0)
		for _, name := range names {
			longest = max(longest, c.plot.X.Tick.Label.Width(name))
		}
		if room := vg.Length(width-200) / vg.Length(len(names)); longest > room {
			c.plot.X.Tick.Label.Rotation = math.Pi / 6
			c.plot.X.Tick.Label.XAlign = draw.XRight
			c.left = max(0, longest-room) // where the first name begins
		}
	}
}

// rangeY widens the Y axis to whole ticks.
func (c *canvas) rangeY() {
	y := &c.plot.Y
	if math.IsInf(y.Min, 0) { // there is no data
		y.Min, y.Max = 1, 10
	}
	if c.axes.LogY {
		y.Min, y.Max = wholeLog(y.Min, y.Max)
		return
	}
	y.Min, y.Max = whole(min(0, y.Min), max(0, y.Max))
}

// svg draws everything.
func (c *canvas) svg() (svg []byte, err error) {
	defer func() { // gonum/plot panics where it cannot place something
		if p := recover(); p != nil {
			svg, err = nil, fmt.Errorf("chart: %v", p)
		}
	}()
	c.rangeY()
	page := vgsvg.New(width, height)
	all := draw.New(page)
	all.SetColor(color.White)
	all.Fill(all.Path())
	inner := draw.Crop(all, margin, -margin, margin, -margin)
	aside := vg.Length(0)
	for _, name := range c.names {
		aside = max(aside, gap+thumbnail+c.legend.TextStyle.Width(" "+name))
	}
	data := draw.Crop(inner, c.left, -aside, 0, 0)
	c.plot.Draw(data)
	if len(c.names) > 0 {
		legend := draw.Crop(inner, inner.Size().X-aside+gap, 0, 0, 0)
		legend.Max.Y = c.plot.DataCanvas(data).Max.Y
		c.legend.Draw(legend)
	}
	var b bytes.Buffer
	if _, err := page.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	return c.finish(b.String())
}

// finish gives the document a head that also fits into HTML, and generic fonts.
func (c *canvas) finish(svg string) ([]byte, error) {
	_, body, found := strings.Cut(svg, `xmlns:xlink="http://www.w3.org/1999/xlink">`)
	if !found {
		return nil, errors.New("chart: the drawing has an unknown head")
	}
	title := html.EscapeString(c.axes.Title)
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="%s">`,
		width, height, title)
	body = strings.ReplaceAll(body, "font-family:Liberation Sans;", "font-family:"+families+";")
	return []byte(head + "\n<title>" + title + "</title>" + body), nil
}
