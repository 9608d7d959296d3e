package load

import "time"

// series counts events over time: element i those in the i-th of equal parts of a phase.
type series [50]int64

// add counts an event at a time after the start, unless the phase has ended.
func (s *series) add(at, length time.Duration) {
	if i := int(at * time.Duration(len(s)) / length); i < len(s) {
		s[i]++
	}
}

// buckets turns counts into rates, up to the end of the measurement.
func buckets(done, failed series, length, elapsed time.Duration) []Bucket {
	list := []Bucket{}
	for i := range done {
		from := time.Duration(i) * length / time.Duration(len(done))
		width := min(length/time.Duration(len(done)), elapsed-from).Seconds()
		if width <= 0 {
			break
		}
		list = append(list, Bucket{
			From: from.Seconds(), Length: width,
			CyclesPer: float64(done[i]) / width, FailedPer: float64(failed[i]) / width,
		})
	}
	return list
}
