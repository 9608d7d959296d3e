package engine

import (
	"slices"
	"sync"
	"sync/atomic"
)

// watches is the channels that are notified when a key may have changed, and the nodes that push changes.
type watches struct {
	some   atomic.Int32 // the number of channels; while it is 0, a change takes no mutex
	mu     sync.Mutex
	of     map[string][]chan struct{} // by key; each has room for one
	pushes map[int]bool
}

// Watch returns a channel that receives a value when a key may have changed on a node since it was observed there. stop
// ends that.
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

// changed notifies the channels that watch a key.
func (w *watches) changed(key string) {
	if w.some.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	tell(w.of[key])
}

// tracking records that a node begins or ceases to push changes. In both cases a change may have been missed, so all
// channels are notified.
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

// tell sends a notice to each of the channels. It does not block.
func tell(all []chan struct{}) {
	for _, told := range all {
		select {
		case told <- struct{}{}:
		default: // the channel still holds a notice that its reader has not received
		}
	}
}
