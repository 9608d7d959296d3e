package pictures

import (
	"cmp"
	"slices"
)

// label is a text that belongs to a place on the time axis.
type label struct {
	text, class string
	x           float64 // the place
	left, right float64 // where the text goes
	row         int     // 0 is the one next to the bar
}

// place gives each label a row, so that no two overlap and that no line from a label to its place crosses another label.
// It returns how many rows there are.
func place(labels []*label, left, right float64) (rows int) {
	const gap = 7
	// From right to left: texts go to the right of their place, so those on the right must be the nearer ones.
	slices.SortStableFunc(labels, func(a, b *label) int { return cmp.Compare(b.x, a.x) })
	for i, l := range labels {
		width := TextWidth(l.text)
		l.left = max(left, min(l.x-2, right-width))
		l.right = l.left + width
		fits := func(strict bool) bool {
			for _, other := range labels[:i] {
				overlap := l.left < other.right+gap && other.left < l.right+gap
				switch {
				case overlap && l.row == other.row,
					strict && l.row > other.row && l.x > other.left-2 && l.x < other.right+2,
					strict && l.row < other.row && other.x > l.left-2 && other.x < l.right+2:
					return false
				}
			}
			return true
		}
		for l.row = 0; l.row <= i && !fits(true); l.row++ {
		}
		if l.row > i { // every row crosses a line: the text covers it
			for l.row = 0; !fits(false); l.row++ {
			}
		}
		rows = max(rows, l.row+1)
	}
	return rows
}
