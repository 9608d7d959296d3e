package chart

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

const ticksWanted = 6

// linearTicks are at multiples of 1, 2 or 5 times a power of ten.
type linearTicks struct{}

// Ticks implements [plot.Ticker].
func (linearTicks) Ticks(low, high float64) []plot.Tick {
	s := step(low, high)
	var ticks []plot.Tick
	for i := math.Ceil(low/s - 1e-9); i <= high/s+1e-9; i++ {
		ticks = append(ticks, tick(i*s))
	}
	return ticks
}

// step is the distance between two ticks.
func step(low, high float64) float64 {
	rough := (high - low) / ticksWanted
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{1, 2, 5} {
		if rough <= factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// whole widens a range to the next ticks.
func whole(low, high float64) (float64, float64) {
	if low == high {
		high = low + 1
	}
	s := step(low, high)
	return math.Floor(low/s+1e-9) * s, math.Ceil(high/s-1e-9) * s
}

// logTicks are at powers of ten, and at 2 and 5 times one where there is room.
type logTicks struct{}

// Ticks implements [plot.Ticker].
func (logTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	dense := math.Log10(high/low) <= 3.2
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high*(1+1e-9); power *= 10 {
		for factor := 1.0; factor < 10; factor++ {
			v := factor * power
			switch {
			case v < low*(1-1e-9) || v > high*(1+1e-9):
			case factor == 1 || dense && (factor == 2 || factor == 5):
				ticks = append(ticks, tick(v))
			default:
				ticks = append(ticks, plot.Tick{Value: v})
			}
		}
	}
	return ticks
}

// wholeLog widens a range to the next 1, 2 or 5 times a power of ten.
func wholeLog(low, high float64) (float64, float64) {
	below, above := 0.0, 0.0
	for power := math.Pow(10, math.Floor(math.Log10(low))); above == 0; power *= 10 {
		for _, factor := range []float64{1, 2, 5} {
			v := factor * power
			if v <= low*(1+1e-9) {
				below = v
			}
			if above == 0 && v >= high*(1-1e-9) && v > below {
				above = v
			}
		}
	}
	return below, above
}

// nines is an axis of percentiles on which 90, 99, 99.9 and so on are at equal distances.
type nines struct{}

// Normalize implements [plot.Normalizer].
func (nines) Normalize(low, high, x float64) float64 {
	return (depth(x) - depth(low)) / (depth(high) - depth(low))
}

// depth is how many nines a percentile has.
func depth(percentile float64) float64 { return -math.Log10(1 - percentile/100) }

// Ticks implements [plot.Ticker].
func (nines) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	add := func(v float64) {
		if v >= low && v <= high+1e-9 {
			ticks = append(ticks, tick(v))
		}
	}
	add(0)
	add(50)
	for n := 1.0; n <= 12; n++ {
		add(math.Round((100-math.Pow(10, 2-n))*1e10) / 1e10)
	}
	return ticks
}

// tick is one with its number, without the digits that only rounding put there.
func tick(v float64) plot.Tick {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v+0, 'g', 12, 64), 64) // + 0: there is no -0
	return plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)}
}
