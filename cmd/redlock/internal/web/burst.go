package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

const (
	// burstTime is for how long changes join the first one that they are like.
	burstTime = time.Minute
	// maxApart is how many of them have a line each. More have one line in common.
	maxApart = 3
)

// burst is changes of one kind, of names of one series, that have come together.
type burst struct {
	Text, Series string
	Since        time.Time // the first change was not before
	From         time.Time // when the first one was seen
	Count        int
	Last         []event // at most maxApart, the newest last
}

// series returns what a name begins with before its first number, such as orders/ of orders/4711: programs number the locks of
// one purpose. A name without a number is its own series.
func series(name string) string {
	digit := strings.IndexAny(name, "0123456789")
	if digit < 0 {
		return name
	}
	stem := name[:digit]
	if end := strings.LastIndexAny(stem, "/:.-_ "); end >= 0 {
		stem = stem[:end+1] // what follows may be a number in base 16
	}
	return stem
}

// note adds an event to the last changes.
func (h *history) note(e event) {
	text, of, since := e.text(), series(e.Name), e.At
	if e.Found {
		since = h.lastAt
	}
	for i := len(h.recent) - 1; i >= 0 && e.At.Sub(h.recent[i].From) < burstTime; i-- {
		if b := &h.recent[i]; b.Text == text && b.Series == of {
			b.Count++
			b.Last = newest(append(b.Last, e), maxApart)
			return
		}
	}
	h.recent = newest(append(h.recent, burst{text, of, since, e.At, 1, []event{e}}), maxEvents)
}

// rows returns the lines for a burst.
func (b *burst) rows() (rows []dated) {
	if b.Count <= maxApart {
		for _, e := range b.Last {
			rows = append(rows, dated{e.At, change(e)})
		}
		return rows
	}
	last := b.Last[len(b.Last)-1]
	c := change(last)
	c.Text, c.Since = fmt.Sprintf("%s %d times", b.Text, b.Count), clock(b.From)
	if b.Series != last.Name {
		c.Series, c.Filter = display.Clipped(b.Series, maxText)+"…", query{Filter: b.Series}.Link()
	}
	return []dated{{last.At, c}}
}
