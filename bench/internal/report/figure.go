package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// figure sums up what several passes have measured.
type figure struct{ median, least, most float64 }

// sum needs one value at least.
func sum(values []float64) figure {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return figure{median: (sorted[(n-1)/2] + sorted[n/2]) / 2, least: sorted[0], most: sorted[n-1]}
}

// String returns the median, and the range behind it where there is one.
func (f figure) String() string {
	median, least, most := number(f.median), number(f.least), number(f.most)
	if least == most {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, least, most)
}

// number writes three digits, and all that are before the point; of what is close to zero, only the first.
func number(v float64) string {
	switch size := math.Abs(v); {
	case v == math.Trunc(v) && size < 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size < 0.01:
		return strconv.FormatFloat(v, 'g', 1, 64)
	case size < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case size < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if v < 0 {
		return "-" + digits
	}
	return digits
}
