package pictures

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Timeline is a picture of what happened when: lanes below each other over an axis of time.
type Timeline struct {
	Title       string // for those who do not see the picture, as the description
	Description string
	Panels      []Panel
	Legend      []Sample
}

// Panel is one course of events with an axis of its own.
type Panel struct {
	Heading string // "" means none
	Until   time.Duration
	Lanes   []Lane
	Rules   []Rule
	Arrows  []Arrow
}

// Lane is what happens in one place.
type Lane struct {
	Name  string
	Bands []Band
	Marks []Mark
}

// Band is a state that lasts. Its class is "wait" for a line, otherwise one of "a", "b", "grey", "drift" and "frozen".
type Band struct {
	Class    string
	From, To time.Duration
	Text     string // in the band if there is room, otherwise above it
}

// Mark is a moment in a lane. Its class is "yes", "no" or "unknown", or "" for no sign.
type Mark struct {
	Class string
	At    time.Duration
	Text  string
}

// Rule is a moment that concerns all lanes.
type Rule struct {
	At   time.Duration
	Text string
}

// Arrow goes from one lane to another, by their indexes.
type Arrow struct {
	From, To  int
	Sent, Got time.Duration
}

// Sample is a line of the legend: the class of a band or mark, and what it means.
type Sample struct{ Class, Text string }

const (
	margin    = 10.0
	barHeight = 17.0
	lanePad   = 7.0
)

// SVG draws the timeline.
func (t *Timeline) SVG() ([]byte, error) {
	s := &sketch{}
	y := margin
	for i, p := range t.Panels {
		if i > 0 {
			y += 14
		}
		var err error
		if y, err = p.draw(s, y); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Title, err)
		}
	}
	y = drawLegend(s, t.Legend, y)
	s.add(back-1, "rect", "page", "", "width", float64(Width), "height", y, "rx", 6.0)
	return s.document(t.Title, t.Description, y)
}

// scale maps times to places.
type scale struct {
	left, right float64
	until       time.Duration
}

func (s scale) x(at time.Duration) float64 {
	at = min(max(at, 0), s.until)
	return s.left + float64(at)/float64(s.until)*(s.right-s.left)
}

// draw draws a panel from y on, and returns where it ends.
func (p *Panel) draw(s *sketch, y float64) (float64, error) {
	names := 0.0
	for _, l := range p.Lanes {
		names = max(names, TextWidth(l.Name))
	}
	axis := scale{margin + names + 8, Width - margin - 4, p.Until}
	if p.Until <= 0 || axis.right-axis.left < Width/2 {
		return 0, fmt.Errorf("names of lanes are %.0f wide and the axis is %v long", names, p.Until)
	}
	if p.Heading != "" {
		s.say("strong", p.Heading, margin, y+13, "start")
		y += 22
	}
	var err error
	top := y
	if y, err = p.drawRules(s, axis, y); err != nil {
		return 0, err
	}
	middles := make([]float64, len(p.Lanes))
	for i := range p.Lanes {
		if middles[i], y, err = p.Lanes[i].draw(s, axis, y); err != nil {
			return 0, err
		}
	}
	for _, r := range p.Rules {
		s.line(lines, "rule", axis.x(r.At), top+lineHeight-1, axis.x(r.At), y)
	}
	for _, a := range p.Arrows {
		drawArrow(s, axis.x(a.Sent), middles[a.From], axis.x(a.Got), middles[a.To])
	}
	return drawAxis(s, axis, top, y), nil
}

// writeLabels writes labels above y + rows x lineHeight, with lines from those further up to y + all rows.
func writeLabels(s *sketch, labels []*label, axis scale, y float64) (float64, error) {
	rows := place(labels, axis.left, Width-margin)
	y += float64(rows) * lineHeight
	for _, l := range labels {
		if l.right > Width-margin+0.01 {
			return 0, fmt.Errorf("%q is too long", l.text)
		}
		base := y - float64(l.row)*lineHeight - 4
		s.say(l.class, l.text, l.left, base, "start")
		if l.row > 0 {
			s.line(lines, "leader", l.x, base+3, l.x, y)
		}
	}
	return y, nil
}

func (p *Panel) drawRules(s *sketch, axis scale, y float64) (float64, error) {
	var labels []*label
	for _, r := range p.Rules {
		labels = append(labels, &label{text: r.Text, class: "strong", x: axis.x(r.At)})
	}
	return writeLabels(s, labels, axis, y)
}

// draw draws a lane from y on. It returns the middle of its bar, and where the lane ends.
func (l *Lane) draw(s *sketch, axis scale, y float64) (middle, end float64, err error) {
	s.line(back, "grid", margin, y, Width-margin, y)
	y += 3
	var labels []*label
	inside := make([]float64, len(l.Bands)) // the middle of the text in the band, or 0
	for i, b := range l.Bands {
		if b.Text == "" {
			continue
		}
		if inside[i] = l.room(b, axis); inside[i] == 0 {
			labels = append(labels, &label{text: b.Text, class: "text", x: min(axis.x(b.From)+4, axis.x(b.To))})
		}
	}
	for _, m := range l.Marks {
		if m.Text != "" {
			labels = append(labels, &label{text: m.Text, class: "text", x: axis.x(m.At)})
		}
	}
	if y, err = writeLabels(s, labels, axis, y); err != nil {
		return 0, 0, err
	}
	y++
	middle = y + barHeight/2
	s.say("text", l.Name, margin, middle+4.5, "start")
	for i, b := range l.Bands {
		from, to := axis.x(b.From), axis.x(b.To)
		if b.Class == "wait" {
			s.line(bars, b.Class, from, middle, to, middle)
			continue
		}
		s.box(bars, b.Class, from, y, max(to-from, 1), barHeight)
		if inside[i] > 0 {
			s.say("inside", b.Text, inside[i], middle+4.5, "middle")
		}
	}
	for _, m := range l.Marks {
		drawSign(s, m.Class, axis.x(m.At), middle)
	}
	return middle, y + barHeight + lanePad, nil
}

// room returns the middle of the widest part of a band without signs, or 0 if the text of the band does not fit there.
func (l *Lane) room(b Band, axis scale) (middle float64) {
	if b.Class == "wait" {
		return 0
	}
	const sign = 7.0
	edges := []float64{axis.x(b.From), axis.x(b.To)}
	for _, m := range l.Marks {
		if m.Class != "" && m.At >= b.From && m.At <= b.To {
			edges = append(edges, axis.x(m.At)-sign, axis.x(m.At)+sign)
		}
	}
	slices.Sort(edges)
	widest := TextWidth(b.Text) + 4
	for i, edge := range edges[1:] {
		if width := edge - edges[i]; width >= widest {
			widest, middle = width, (edge+edges[i])/2
		}
	}
	return middle
}

func drawSign(s *sketch, class string, x, y float64) {
	switch class {
	case "no":
		s.add(signs, "path", class, "", "d", fmt.Sprintf("M%.1f %.1fl9 9m0 -9l-9 9", x-4.5, y-4.5))
	case "yes", "unknown":
		s.add(signs, "circle", class, "", "cx", x, "cy", y, "r", 5.0)
	}
}

// drawArrow draws an arrow, with a head of two strokes, from the edge of a bar whose middle is at x1, y1.
func drawArrow(s *sketch, x1, y1, x2, y2 float64) {
	y1 += math.Copysign(barHeight/2, y2-y1)
	length := math.Hypot(x2-x1, y2-y1)
	if length < 1 {
		return
	}
	dx, dy := (x2-x1)/length, (y2-y1)/length
	x2, y2 = x2-6*dx, y2-6*dy // not into the sign
	s.line(lines, "arrow", x1, y1, x2, y2)
	s.add(lines, "path", "arrow", "", "d", fmt.Sprintf("M%.1f %.1fL%.1f %.1fL%.1f %.1f",
		x2-7*dx-4*dy, y2-7*dy+4*dx, x2, y2, x2-7*dx+4*dy, y2-7*dy-4*dx))
}

// drawAxis draws the axis of a panel that begins at top, below y.
func drawAxis(s *sketch, axis scale, top, y float64) float64 {
	step := time.Millisecond
	for i := 0; axis.until/step > 8; i++ {
		step = []time.Duration{2, 5, 10}[i%3] * time.Duration(math.Pow10(i/3)) * time.Millisecond
	}
	s.line(lines, "axis", axis.left, y, axis.right, y)
	unit, free := " ms", Width-margin // free is where the label to the right begins
	for at := axis.until / step * step; at >= 0; at -= step {
		x := axis.x(at)
		s.line(back, "grid", x, top+lineHeight, x, y)
		s.line(lines, "axis", x, y, x, y+4)
		text := fmt.Sprint(at.Milliseconds()) + unit
		width := TextWidth(text)
		switch {
		case unit != "" && x+width/2 > free:
			s.say("soft", text, free, y+17, "end")
			free -= width + 4
		case x+width/2 <= free:
			s.say("soft", text, x, y+17, "middle")
			free = x - width/2 - 4
		}
		unit = ""
	}
	return y + 24
}

// drawLegend draws the legend from y on.
func drawLegend(s *sketch, samples []Sample, y float64) float64 {
	const sample, gap = 22.0, 14.0
	if len(samples) == 0 {
		return y
	}
	y += 8
	x := margin
	for _, l := range samples {
		width := sample + 5 + TextWidth(l.Text)
		if x > margin && x+width > Width-margin {
			x, y = margin, y+20
		}
		switch l.Class {
		case "wait", "rule":
			s.line(bars, l.Class, x, y+8, x+sample, y+8)
		case "yes", "no", "unknown":
			drawSign(s, l.Class, x+sample/2, y+8)
		case "arrow":
			drawArrow(s, x, y+8-barHeight/2, x+sample+4, y+8)
		default:
			s.box(bars, l.Class, x, y+2, sample, 12)
		}
		s.say("soft", l.Text, x+sample+5, y+12.5, "start")
		x += width + gap
	}
	return y + 24
}
