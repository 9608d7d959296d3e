//go:build darwin || freebsd || linux

package supervise

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	lockevent "github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// Observer records which nodes were disconnected, and why the lock was refused last.
type Observer struct {
	mu      sync.Mutex
	broken  []string      // the addresses of the nodes whose connection broke
	last    error         // of the last acquire; nil before there was one
	changed chan struct{} // has an element if the obstacle of last is another one than before
}

// NewObserver makes an Observer.
func NewObserver() *Observer { return &Observer{changed: make(chan struct{}, 1)} }

// Groups returns the groups of events that the Observer needs.
func (*Observer) Groups() []lockevent.Group {
	return []lockevent.Group{lockevent.Nodes, protocol.Rounds}
}

// Observe implements [lockevent.Observer].
func (o *Observer) Observe(e lockevent.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch e := e.(type) {
	case lockevent.NodeDown:
		broke := e.Failed == 0 && !errors.Is(e.Err, nodeerr.ErrClosed)
		if broke && !slices.Contains(o.broken, e.Addr) {
			o.broken = append(o.broken, e.Addr)
		}
	case protocol.Round:
		if e.Op != lockevent.OpAcquire || e.Err == nil {
			return
		}
		before := o.last
		o.last = e.Err
		if before != nil && obstacleOf(before) != obstacleOf(e.Err) {
			select {
			case o.changed <- struct{}{}:
			default:
			}
		}
	}
}

// disconnected returns the addresses of the nodes whose connection broke.
func (o *Observer) disconnected() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(slices.Values(o.broken))
}

// outage returns why too few nodes grant the lock, or nil if that did not prevent the last acquire.
func (o *Observer) outage() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if errors.Is(o.last, redlock.ErrNoQuorum) && !errors.Is(o.last, nodeerr.ErrUnanswered) {
		return o.last
	}
	return nil
}

// obstacle is a kind of reason for which a lock is waited for.
type obstacle int

const (
	byHolder     obstacle = iota + 1
	byQuarantine          // without it, enough nodes would grant the lock
	byOutage              // too few nodes would
)

// obstacleOf returns the obstacle that an error is about; nil is of a lock that is held.
func obstacleOf(err error) obstacle {
	refusal := (*redlock.QuorumError)(nil)
	switch {
	case err == nil, errors.Is(err, redlock.ErrTaken):
		return byHolder
	case !errors.As(err, &refusal), !errors.Is(err, nodeerr.ErrQuarantined):
		return byOutage
	}
	would := 0
	for i := range refusal.Nodes {
		if err := refusal.Nodes[i].Err; err == nil || errors.Is(err, nodeerr.ErrQuarantined) || errors.Is(err, nodeerr.ErrUnneeded) {
			would++
		}
	}
	if would < refusal.Need {
		return byOutage
	}
	return byQuarantine
}

// changes waits until another obstacle is in the way of the lock. It returns false if ctx ends before.
func (o *Observer) changes(ctx context.Context) bool {
	select {
	case <-o.changed:
		return true
	case <-ctx.Done():
		return false
	}
}
