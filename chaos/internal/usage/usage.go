// Package usage shows what client processes have needed in the course of a run, and finds what has grown.
package usage

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

//go:embed usage.html
var source string

var page = template.Must(template.New("").Parse(source))

// Sizes in pixels.
const (
	width  = 1000
	height = 160
)

// need is something that a process needs.
type need struct {
	Name  string
	of    func(*history.Op) int64
	spare int64 // by how much it may be more at the end than at the beginning, beside half
}

var needs = []need{
	{"goroutines", func(o *history.Op) int64 { return int64(o.Goroutines) }, 100},
	{"megabytes of heap", func(o *history.Op) int64 { return o.Heap >> 20 }, 16},
	{"open files and connections", func(o *history.Op) int64 { return int64(o.Files) }, 20},
}

// Grown names what the processes need more of at the end than after the first tenth: by half, and by some more that does not matter.
// What they need for a moment is left out: medians are compared. It takes ten samples.
func Grown(ops []*history.Op) (found []string) {
	for client, all := range byClient(ops) {
		tenth := len(all) / 10
		if tenth == 0 {
			found = append(found, client+": it is not known what it needed, for the most part")
			continue
		}
		for _, n := range needs {
			before, after := n.median(all[tenth:2*tenth]), n.median(all[len(all)-tenth:])
			if after > before+before/2+n.spare {
				found = append(found, fmt.Sprintf("%s: from %d to %d %s", client, before, after, n.Name))
			}
		}
	}
	slices.Sort(found)
	return found
}

func (n need) median(ops []*history.Op) int64 {
	all := make([]int64, len(ops))
	for i, o := range ops {
		all[i] = n.of(o)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func byClient(ops []*history.Op) map[string][]*history.Op {
	all := map[string][]*history.Op{}
	for _, o := range ops {
		all[o.Client] = append(all[o.Client], o)
	}
	return all
}

// chart is what the page shows of a need.
type chart struct {
	Name  string
	Most  int64
	Lines []line
}

type line struct{ Client, Points string }

// Write writes a page with a chart of each need, with a line for each process. It needs no other file.
func Write(w io.Writer, ops []*history.Op) error {
	var charts []chart
	var from, to int64
	for i, o := range ops {
		if i == 0 {
			from, to = o.Start, o.Start
		}
		from, to = min(from, o.Start), max(to, o.Start)
	}
	clients := byClient(ops)
	for _, n := range needs {
		c := chart{Name: n.Name, Most: 1}
		for _, o := range ops {
			c.Most = max(c.Most, n.of(o))
		}
		for client, all := range clients {
			var points strings.Builder
			for _, o := range all {
				fmt.Fprintf(&points, "%.1f,%.1f ", width*float64(o.Start-from)/float64(max(1, to-from)),
					height*(1-float64(n.of(o))/float64(c.Most)))
			}
			c.Lines = append(c.Lines, line{client, points.String()})
		}
		slices.SortFunc(c.Lines, func(a, b line) int { return strings.Compare(a.Client, b.Client) })
		charts = append(charts, c)
	}
	return page.Execute(w, map[string]any{
		"Charts": charts, "Width": width, "Height": height, "Lasting": time.Duration(to - from).Round(time.Second),
	})
}
