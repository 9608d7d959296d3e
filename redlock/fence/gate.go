package fence

import "sync"

// Gate checks fences in memory, for a resource that only this process writes to, and for tests. The zero
// value accepts every fence. It is safe for concurrent use and must not be copied. It keeps every resource
// until the process ends.
type Gate struct {
	resources sync.Map // of *gated, by name
}

// gated is the state of one resource.
type gated struct {
	mu   sync.Mutex // held while a write runs
	seen uint64
}

// Run checks fence for the resource, calls write if it passes, and returns the error of write. Writes to
// one resource run one at a time: Run waits for the others, so write must not call Run for the same
// resource.
//
// Its own errors are a [*StaleError] with Seen, and [ErrInvalid] for an empty resource, a bad fence or a nil write. If
// Run returns one of these, write was not called. After an error or a panic of write the fence stays stored.
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
