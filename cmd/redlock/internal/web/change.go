package web

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

// changeView is a change of a lock on the page.
type changeView struct {
	Clock, Date, State, Text, Name, Who, Token, Was string
	Query                                           template.URL // has the name
	Since                                           string       // of a burst: the time of day of its first change
	Series                                          string       // of a burst of several names
	Filter                                          template.URL // for the Series
}

// maxChanges is how many changes the page about all locks shows.
const maxChanges = 12

// dated is a line of a timeline.
type dated struct {
	at time.Time
	changeView
}

// timeline returns what has happened to a name, the newest first, and when nobody watched.
func timeline(past *history, name string) []changeView {
	rows := []dated{{past.Began, changeView{Clock: clock(past.Began), State: "note", Text: "watched from here on"}}}
	for _, e := range past.of(name) {
		c := change(e)
		c.Name = "" // the page is about it
		rows = append(rows, dated{e.At, c})
	}
	return latest(append(rows, unwatched(past)...), maxEvents+maxGaps+1)
}

// lately returns what has happened to all names, the newest first, and when nobody watched, from before
// the first of that on. A burst is one line.
func lately(past *history) []changeView {
	var rows []dated
	for i := range past.recent {
		rows = append(rows, past.recent[i].rows()...)
	}
	for _, row := range unwatched(past) {
		if len(rows) > 0 && !row.at.Before(past.recent[0].Since) {
			rows = append(rows, row)
		}
	}
	return latest(rows, maxChanges)
}

// unwatched returns the times in which nothing was recorded.
func unwatched(past *history) (rows []dated) {
	for _, g := range past.gaps {
		text := fmt.Sprintf("not watched from %s to %s, as no page was open", clock(g.From), clock(g.To))
		if g.Asked {
			text = fmt.Sprintf("not known from %s to %s, as too few nodes listed all keys", clock(g.From), clock(g.To))
		}
		rows = append(rows, dated{g.From, changeView{Clock: clock(g.From), State: "note", Text: text}})
	}
	return rows
}

// latest sorts lines by time, and returns the last of them, the newest first.
func latest(rows []dated, most int) (views []changeView) {
	slices.SortStableFunc(rows, func(a, b dated) int { return a.at.Compare(b.at) })
	for _, r := range slices.Backward(newest(rows, most)) {
		views = append(views, r.changeView)
	}
	return views
}

func change(e event) changeView {
	return changeView{
		Clock: clock(e.At), Date: e.At.Format(time.RFC3339), State: strings.ReplaceAll(e.What, " ", "-"), Text: e.text(),
		Name: display.Clipped(e.Name, maxText), Query: query{Name: e.Name}.Link(),
		Who: display.Clipped(e.Metadata, maxText), Token: display.Clipped(e.Token, maxToken), Was: display.Clipped(e.Was, maxToken),
	}
}

// text says what has happened, or only what was found if nobody saw when it happened.
func (e *event) text() string {
	if !e.Found {
		return e.What
	}
	switch e.What {
	case taken:
		return "found held"
	case handed:
		return "found in other hands"
	case freed, ended:
		return "found " + e.What
	}
	return e.What // majorities are what was found
}
