//go:build darwin || freebsd || linux

package supervise

import (
	"errors"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	lockevent "github.com/quorumlock/quorumlock/redlock/event"
)

// Observer records which nodes were disconnected.
type Observer struct {
	mu     sync.Mutex
	broken []string // the addresses of the nodes whose connection broke
}

// Groups returns the groups of events that the Observer needs.
func (*Observer) Groups() []lockevent.Group { return []lockevent.Group{lockevent.Nodes} }

// Observe implements [lockevent.Observer].
func (o *Observer) Observe(e lockevent.Event) {
	down, is := e.(lockevent.NodeDown)
	if !is || down.Failed > 0 || errors.Is(down.Err, nodeerr.ErrClosed) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.broken, down.Addr) {
		o.broken = append(o.broken, down.Addr)
	}
}

// disconnected returns the addresses of the nodes whose connection broke.
func (o *Observer) disconnected() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(slices.Values(o.broken))
}
