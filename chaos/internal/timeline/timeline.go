// Package timeline draws a piece of a history: a lane for each worker, and one for each server that a fault concerns.
package timeline

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// Sizes in pixels.
const (
	width  = 1200
	margin = 130 // for the names of lanes
	height = 26  // of a lane
	axis   = 18
)

//go:embed timeline.html
var source string

var page = template.Must(template.New("").Parse(source))

type bar struct {
	Class, Title        string
	X, Y, Width, Height int
}

type lane struct {
	Name string
	Y    int
	Bars []bar
}

type tick struct {
	X    int
	Text string
}

// picture is what the page shows.
type picture struct {
	Title, Text   string
	Width, Height int
	Ticks         []tick
	Lanes         []*lane

	from, to int64 // between its borders
}

// Write writes a page with the operations and a text. The page needs no other file.
func Write(w io.Writer, title, text string, ops []*history.Op) error {
	p := &picture{Title: title, Text: text, Width: width}
	p.scale(ops)
	lanes := map[string]*lane{}
	for _, o := range ops {
		for _, name := range lanesOf(o) {
			if lanes[name] == nil {
				lanes[name] = &lane{Name: name}
			}
		}
	}
	p.Height = axis
	for _, name := range slices.Sorted(maps.Keys(lanes)) {
		l := lanes[name]
		l.Y = p.Height
		p.Height += height
		p.Lanes = append(p.Lanes, l)
	}
	proven := map[string]int64{} // the last proof of each hold
	for _, o := range ops {
		if o.Kind == history.Proof {
			proven[o.Hold] = max(proven[o.Hold], o.Start)
		}
	}
	for _, o := range ops {
		for _, name := range lanesOf(o) {
			p.draw(lanes[name], o, proven)
		}
	}
	return page.Execute(w, p)
}

// scale lets the picture be as long as all that was recorded of clients. Faults may be longer.
func (p *picture) scale(ops []*history.Op) {
	for i, o := range ops {
		if i == 0 {
			p.from, p.to = o.Start, o.Start
		}
		p.from, p.to = min(p.from, o.Start), max(p.to, o.Start)
		if o.Ended() {
			p.to = max(p.to, o.End)
		}
	}
	p.to = max(p.to, p.from+int64(time.Millisecond))
	for i := range 10 {
		at := p.from + (p.to-p.from)*int64(i)/10
		p.Ticks = append(p.Ticks, tick{p.at(at), fmt.Sprint((at - p.from) / int64(time.Millisecond))})
	}
}

func (p *picture) at(t int64) int {
	return margin + int(float64(width-margin)*float64(min(t, p.to)-p.from)/float64(p.to-p.from))
}

// lanesOf returns the names of the lanes that show an operation.
func lanesOf(o *history.Op) (names []string) {
	if o.Kind != history.Fault {
		return []string{fmt.Sprintf("%s / %d", o.Client, o.Worker)}
	}
	for _, n := range o.Nodes {
		names = append(names, fmt.Sprint("server ", n))
	}
	switch {
	case names != nil:
		return names
	case o.Clients != nil:
		return o.Clients
	}
	return []string{"all"}
}

func (p *picture) draw(l *lane, o *history.Op, proven map[string]int64) {
	b := bar{Title: fmt.Sprintf("%s %s %s %s %s", o.Kind, o.What, o.Name, o.Hold, o.Err), X: p.at(o.Start), Y: l.Y + 4, Height: height - 8}
	b.Width = max(2, p.at(o.End)-b.X)
	switch {
	case o.Kind == history.Fault:
		b.Class = "fault"
	case o.Kind == history.Proof:
		b.Class, b.Width, b.Y, b.Height = "proof", 1, l.Y+1, height-2
	case o.Err != "":
		b.Class = "bad"
	default:
		b.Class = "call"
	}
	l.Bars = append(l.Bars, b)
	if until := proven[o.Hold]; o.Hold != "" && until > 0 && (o.Kind == history.Acquire || o.Kind == history.Attach) {
		x := p.at(o.End)
		l.Bars = append(l.Bars, bar{"hold", "held: " + o.Hold, x, l.Y + 1, max(2, p.at(until)-x), height - 2})
	}
}
