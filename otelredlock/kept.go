package otelredlock

// Of the events of a call, and of the renewals of a lock, the first and the last are kept. Together with what else a span may
// have they are fewer than the 128 span events that the SDK keeps by default.
const (
	keepFirst = 24
	keepLast  = 48
)

// kept are the first and the last of many things.
type kept[T any] struct {
	first, last []T
	count       int
}

func (k *kept[T]) add(one T) {
	switch {
	case len(k.first) < keepFirst:
		k.first = append(k.first, one)
	case len(k.last) < keepLast:
		k.last = append(k.last, one)
	default:
		k.last[(k.count-keepFirst)%keepLast] = one
	}
	k.count++
}

// each calls f for those that are kept, in order.
func (k *kept[T]) each(f func(T)) {
	for _, one := range k.first {
		f(one)
	}
	if len(k.last) == 0 {
		return
	}
	oldest := 0
	if len(k.last) == keepLast {
		oldest = (k.count - keepFirst) % keepLast
	}
	for i := range k.last {
		f(k.last[(oldest+i)%len(k.last)])
	}
}

// leftOut returns how many are not kept.
func (k *kept[T]) leftOut() int { return k.count - len(k.first) - len(k.last) }
