package fence

import "sync"

// Gate checks fences in memory, for a resource that only this process writes to. The zero value accepts every fence. It
// is safe for concurrent use, must not be copied, and keeps every resource.
type Gate struct {
	resources sync.Map // of *gated, by name
}

// gated is the state of one resource.
type gated struct {
	mu   sync.Mutex // held while a write runs
	seen uint64
}

// Run checks fence for the resource and, if it passes, calls write and returns its error. Writes to one resource run
// one at a time, so write must not call Run for it. After an error or a panic of write the fence stays stored. A
// [*StaleError] with Seen, or [ErrInvalid], means that write was not called.
func (g *Gate) Run(resource string, fence uint64, write func() error) error {
	switch {
	case resource == "":
		return invalid("the resource is empty")
	case write == nil:
		return invalid("no function to write")
	}
	if err := Valid(fence); err != nil {
		return err
	}
	value, _ := g.resources.LoadOrStore(resource, new(gated))
	r := value.(*gated)
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.seen {
		return &StaleError{Resource: resource, Fence: fence, Seen: r.seen}
	}
	r.seen = fence
	return write()
}
