package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
)

const (
	maxFilter = 256  // bytes
	maxName   = 4096 // bytes
)

// query is which locks a page shows, and how.
type query struct {
	Filter string // what the name, the metadata or the token has to contain, in any case; "" shows all
	Sort   string // a key of orders
	Name   string // of the lock that the page is about; "" means that it is about all
}

// orders are how the locks may be sorted. Locks that are equal are sorted by name.
var orders = map[string]func(a, b *survey.Lock) int{
	"name":   func(_, _ *survey.Lock) int { return 0 },
	"holder": func(a, b *survey.Lock) int { return cmp.Compare(holder(a), holder(b)) },
	"nodes":  func(a, b *survey.Lock) int { return cmp.Compare(a.On, b.On) },
	"left": func(a, b *survey.Lock) int {
		return cmp.Compare(uint64(a.TTL), uint64(b.TTL)) // redlock.NoTTL is the longest
	},
}

func parseQuery(values url.Values) (query, error) {
	q := query{Filter: strings.TrimSpace(values.Get("q")), Sort: cmp.Or(values.Get("sort"), "name"), Name: values.Get("name")}
	switch {
	case len(q.Filter) > maxFilter:
		return q, fmt.Errorf("the filter has more than %d bytes", maxFilter)
	case len(q.Name) > maxName:
		return q, fmt.Errorf("the name has more than %d bytes", maxName)
	case orders[q.Sort] == nil:
		return q, fmt.Errorf("locks are sorted by name, holder, nodes or left")
	}
	return q, nil
}

// String returns the query as it stands in an address.
func (q query) String() string {
	values := url.Values{}
	for key, value := range map[string]string{"q": q.Filter, "sort": q.Sort, "name": q.Name} {
		if value != "" && (key != "sort" || value != "name") {
			values.Set(key, value)
		}
	}
	return values.Encode()
}

// Link returns the query as part of a link.
func (q query) Link() template.URL { return template.URL(q.String()) }

// By returns the same query in another order.
func (q query) By(order string) query {
	q.Sort = order
	return q
}

// FilterText returns the filter as it is shown.
func (q query) FilterText() string { return display.Clipped(q.Filter, maxText) }

// apply returns the locks that are shown. It leaves those given as they are.
func (q query) apply(locks []survey.Lock) []*survey.Lock {
	var shown []*survey.Lock
	filter := strings.ToLower(q.Filter)
	for i := range locks {
		l := &locks[i]
		if filter == "" || slices.ContainsFunc([]string{l.Name, l.Metadata, l.Token}, func(s string) bool {
			return strings.Contains(strings.ToLower(s), filter)
		}) {
			shown = append(shown, l)
		}
	}
	slices.SortStableFunc(shown, orders[q.Sort])
	return shown
}

// holder returns what a lock's holder calls itself, or its token.
func holder(l *survey.Lock) string { return cmp.Or(l.Metadata, l.Token) }
