package web

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

// perPage is how many locks a page has.
const perPage = 50

// pager is where among the locks a page is.
type pager struct {
	Query         query
	Number, Pages int // from 1 on
}

// parsePage returns the number of a page, 1 for none. One beyond the largest number is that number: the last page is shown then.
func parsePage(text string) (int, error) {
	if text == "" {
		return 1, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return math.MaxInt32, nil
	case err != nil || n == 0:
		return 0, fmt.Errorf("the page must be a number from 1 on, not “%s”", display.Clipped(text, maxToken))
	}
	return int(n), nil
}

// turn returns where the page of a query is among a number of locks, the last page if there are fewer, and which locks it has.
func turn(q query, locks int) (p pager, from, to int) {
	p = pager{Pages: max(1, (locks+perPage-1)/perPage)}
	q.Page = min(q.Page, p.Pages)
	p.Query, p.Number = q, q.Page
	from = (p.Number - 1) * perPage
	return p, from, min(from+perPage, locks)
}

// Several reports whether there are more pages than this one.
func (p pager) Several() bool { return p.Pages > 1 }

// On returns the same query for another page.
func (p pager) On(number int) query {
	p.Query.Page = number
	return p.Query
}

// Previous returns the number of the page before this one, 0 if it is the first.
func (p pager) Previous() int { return p.Number - 1 }

// Next returns the number of the page behind this one, 0 if it is the last.
func (p pager) Next() int {
	if p.Number == p.Pages {
		return 0
	}
	return p.Number + 1
}

// Numbers returns the pages that are worth a link: the first, the last and those around this one, with a 0 where some are left out.
func (p pager) Numbers() (numbers []int) {
	last := 0
	for n := 1; n <= p.Pages; n++ {
		if n != 1 && n != p.Pages && (n < p.Number-1 || n > p.Number+1) {
			continue
		}
		if n == last+2 {
			numbers = append(numbers, n-1) // one number is as short as a gap
		} else if n > last+2 {
			numbers = append(numbers, 0)
		}
		numbers, last = append(numbers, n), n
	}
	return numbers
}
