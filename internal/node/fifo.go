package node

// fifo is a queue whose oldest element is the first. The zero value is empty.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

// all returns the elements, oldest first, to be read or changed in place.
func (f *fifo[T]) all() []T { return f.items[f.head:] }

func (f *fifo[T]) push(v T) {
	if f.head > len(f.items)/2 && len(f.items) == cap(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.head]
	f.items[f.head] = zero
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return v
}

// keep drops the elements for which ok returns false.
func (f *fifo[T]) keep(ok func(*T) bool) {
	kept := f.items[:0]
	for i := f.head; i < len(f.items); i++ {
		if ok(&f.items[i]) {
			kept = append(kept, f.items[i])
		}
	}
	clear(f.items[len(kept):])
	f.items, f.head = kept, 0
}
