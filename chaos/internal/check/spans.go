package check

import (
	"cmp"
	"slices"
	"sort"
)

// span is a closed interval of time.
type span struct{ from, to int64 }

// spans are in order, and do not touch.
type spans []span

// merge makes spans of intervals in any order.
func merge(of []span) (all spans) {
	of = slices.Clone(of)
	slices.SortFunc(of, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range of {
		if last := len(all) - 1; last >= 0 && s.from <= all[last].to {
			all[last].to = max(all[last].to, s.to)
			continue
		}
		all = append(all, s)
	}
	return all
}

// after returns those that are not over before t.
func (s spans) after(t int64) spans {
	return s[sort.Search(len(s), func(i int) bool { return s[i].to >= t }):]
}

// touch reports whether one of them overlaps the interval.
func (s spans) touch(from, to int64) bool {
	rest := s.after(from)
	return len(rest) > 0 && rest[0].from <= to
}

// counter counts how many of any number of intervals overlap another.
type counter struct{ from, to []int64 }

func newCounter(of []span) (c counter) {
	for _, s := range of {
		c.from, c.to = append(c.from, s.from), append(c.to, s.to)
	}
	slices.Sort(c.from)
	slices.Sort(c.to)
	return c
}

func (c counter) count(from, to int64) int {
	begun := sort.Search(len(c.from), func(i int) bool { return c.from[i] > to })
	over := sort.Search(len(c.to), func(i int) bool { return c.to[i] >= from })
	return begun - over
}
