package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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
	Page   int    // of the locks, from 1 on; 0 is 1
}

// row is a lock of a listing, with what the listings before it have found of it.
type row struct {
	*survey.Lock
	past *sight // nil if there is none
}

// heldSince returns from when on the lock was seen to be held as it is, or as it was known last if it is not known now.
func (r row) heldSince() time.Time {
	if r.past == nil || !r.Held() && !r.past.doubts(r.Lock) {
		return time.Unix(1<<40, 0) // later than all others
	}
	return r.past.since
}

// orders are how the locks may be sorted. Locks that are equal are sorted by name.
var orders = map[string]func(a, b row) int{
	"name":   func(_, _ row) int { return 0 },
	"holder": func(a, b row) int { return cmp.Compare(holder(a.Lock), holder(b.Lock)) },
	"nodes":  func(a, b row) int { return cmp.Compare(a.On, b.On) },
	"held":   func(a, b row) int { return a.heldSince().Compare(b.heldSince()) },
	"left":   func(a, b row) int { return cmp.Compare(a.TTL, b.TTL) },
}

// wrong reports whether a lock needs attention. One that had its majority at the last listing may be in the middle of a round.
func (r row) wrong() bool {
	switch state, _ := stateOf(r.Lock); state {
	case stateHeld:
		return r.Empty
	case stateSplit:
		return r.past != nil && r.past.without >= splitAfter
	case stateOther:
		return false
	}
	return true
}

func parseQuery(values url.Values) (query, error) {
	q := query{Filter: strings.TrimSpace(values.Get("q")), Sort: cmp.Or(values.Get("sort"), "name"), Name: values.Get("name")}
	var err error
	q.Page, err = parsePage(values.Get("page"))
	switch {
	case err != nil:
		return q, err
	case len(q.Filter) > maxFilter:
		return q, fmt.Errorf("the filter has more than %d bytes", maxFilter)
	case len(q.Name) > maxName:
		return q, fmt.Errorf("the name has more than %d bytes", maxName)
	case orders[q.Sort] == nil:
		return q, fmt.Errorf("locks are sorted by name, holder, nodes, held or left")
	}
	return q, nil
}

// Link returns the query as part of a link.
func (q query) Link() template.URL {
	values := url.Values{}
	for key, value := range map[string]string{"q": q.Filter, "sort": q.Sort, "name": q.Name} {
		if value != "" && (key != "sort" || value != "name") {
			values.Set(key, value)
		}
	}
	if q.Page > 1 {
		values.Set("page", strconv.Itoa(q.Page))
	}
	return template.URL(values.Encode())
}

// By returns the same query in another order, from its first page on.
func (q query) By(order string) query {
	q.Sort, q.Page = order, 1
	return q
}

// apply returns the locks that are shown: those that are wrong, and how many these are, then the others, and last the data of
// programs, which is wrong where only locks should be.
func (q query) apply(locks []survey.Lock, past *history, onlyLocks bool) (shown []row, wrong int) {
	var groups [3][]row
	filter := strings.ToLower(q.Filter)
	for i := range locks {
		l := row{&locks[i], past.last[locks[i].Name]}
		if filter != "" && !seeks(l.Lock, filter) {
			continue
		}
		group := 1
		switch {
		case l.wrong() || l.Other && onlyLocks:
			group = 0
		case l.Other:
			group = 2
		}
		groups[group] = append(groups[group], l)
	}
	for _, group := range groups {
		slices.SortStableFunc(group, orders[q.Sort])
	}
	return slices.Concat(groups[:]...), len(groups[0])
}
