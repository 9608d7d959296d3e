package engine

import (
	"slices"
	"sync"
	"sync/atomic"
)

// watches has those who are told when a key may have changed, and which nodes push that.
type watches struct {
	some   atomic.Int32 // how many there are, as there are many changes
	mu     sync.Mutex
	of     map[string][]chan struct{} // by key; each has room for one
	pushes map[int]bool
}

// Watch returns a channel that receives when a key may have changed on a node since it was observed there, until stop.
func (g *Engine) Watch(key string) (changed <-chan struct{}, stop func()) {
	g.listen()
	w, told := &g.watches, make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string][]chan struct{}{}
	}
	w.of[key] = append(w.of[key], told)
	w.some.Add(1)
	return told, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.some.Add(-1)
		w.of[key] = slices.DeleteFunc(w.of[key], func(o chan struct{}) bool { return o == told })
		if len(w.of[key]) == 0 {
			delete(w.of, key)
		}
	}
}

// Pushes reports whether a node pushes changes.
func (g *Engine) Pushes(node int) bool {
	g.watches.mu.Lock()
	defer g.watches.mu.Unlock()
	return g.watches.pushes[node]
}

// changed tells those who watch a key.
func (w *watches) changed(key string) {
	if w.some.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	tell(w.of[key])
}

// tracking records that a node begins or ceases to push changes. Either may have come after a change.
func (w *watches) tracking(node int, active bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if active {
		if w.pushes == nil {
			w.pushes = map[int]bool{}
		}
		w.pushes[node] = true
	} else {
		delete(w.pushes, node)
	}
	for _, all := range w.of {
		tell(all)
	}
}

func tell(all []chan struct{}) {
	for _, told := range all {
		select {
		case told <- struct{}{}:
		default: // it has been told, and has not looked yet
		}
	}
}
