package fence

import (
	"errors"
	"sync"
)

// Gate is a fence in memory: for a resource that only this process writes to, and for tests. The zero value is open to every token.
// It may be used from any goroutine and must not be copied. It remembers every resource, and nothing after the process ends.
type Gate struct {
	mu    sync.Mutex
	doors map[string]*door
}

// door is what is remembered of one resource.
type door struct {
	mu   sync.Mutex // held while a write runs
	seen uint64
}

// Run calls write if token is at least the highest one seen for the resource, which it is then, and returns what write
// returns. Only one write to a resource runs at a time; Run waits for it. So write must not call Run for the same resource.
//
// A [*StaleError] with Seen, or an error that names an empty resource or a bad token, means that write was not called. After
// an error or a panic of write the token stays raised.
func (g *Gate) Run(resource string, token uint64, write func() error) error {
	if resource == "" {
		return errors.New("fence: the resource is empty")
	}
	if err := CheckToken(token); err != nil {
		return err
	}
	d := g.door(resource)
	d.mu.Lock()
	defer d.mu.Unlock()
	if token < d.seen {
		return &StaleError{Resource: resource, Token: token, Seen: d.seen}
	}
	d.seen = token
	return write()
}

func (g *Gate) door(resource string) *door {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.doors[resource]
	if d == nil {
		if g.doors == nil {
			g.doors = make(map[string]*door)
		}
		d = new(door)
		g.doors[resource] = d
	}
	return d
}
