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
}

// timeline returns what has happened to a name, the newest first, and when nobody watched.
func timeline(past *history, name string) []changeView {
	type row struct {
		at time.Time
		changeView
	}
	rows := []row{{past.Began, changeView{Clock: clock(past.Began), State: "note", Text: "watched from here on"}}}
	for _, e := range past.of(name) {
		c := change(e)
		c.Name = "" // the page is about it
		rows = append(rows, row{e.At, c})
	}
	for _, g := range past.gaps {
		text := fmt.Sprintf("not watched from %s to %s, as no page was open", clock(g.From), clock(g.To))
		if g.Asked {
			text = fmt.Sprintf("not known from %s to %s, as too few nodes answered", clock(g.From), clock(g.To))
		}
		rows = append(rows, row{g.From, changeView{Clock: clock(g.From), State: "note", Text: text}})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.at.Compare(b.at) })
	var views []changeView
	for _, r := range slices.Backward(rows) {
		views = append(views, r.changeView)
	}
	return views
}

func change(e event) changeView {
	return changeView{
		Clock: clock(e.At), Date: e.At.Format(time.RFC3339), State: strings.ReplaceAll(e.What, " ", "-"), Text: e.What,
		Name: display.Clipped(e.Name, maxText), Query: query{Name: e.Name}.Link(),
		Who: display.Clipped(e.Metadata, maxText), Token: display.Clipped(e.Token, maxToken), Was: display.Clipped(e.Was, maxToken),
	}
}
