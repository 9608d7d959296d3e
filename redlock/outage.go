package redlock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// outages ends waits when no majority of the nodes could be reached for too long ([MaxOutage]).
type outages struct {
	clock clock.Clock
	some  atomic.Bool // waits is not empty

	mu    sync.Mutex
	waits map[*outageWait]struct{}
}

// outageWait is a wait that MaxOutage limits.
type outageWait struct {
	name   string
	max    time.Duration
	begun  time.Time // when the wait began
	since  time.Time // when the outage began; zero if there is none
	last   *QuorumError
	timer  clock.Timer // nil before the first outage
	giveUp context.CancelCauseFunc
}

// limit returns a context that ends when no majority has been reached for max. stop frees its resources.
func (o *outages) limit(ctx context.Context, name string, max time.Duration) (limited context.Context, stop func()) {
	limited, giveUp := context.WithCancelCause(ctx)
	w := &outageWait{name: name, max: max, begun: o.clock.Now(), giveUp: giveUp}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits[w] = struct{}{}
	o.some.Store(true)
	return limited, func() {
		defer giveUp(nil)
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.waits, w)
		o.some.Store(len(o.waits) > 0)
		if w.timer != nil {
			w.timer.Stop()
		}
	}
}

// ended records the answers to a round that acquires. A round that was given up before the nodes decided shows nothing
// about them.
func (o *outages) ended(r *engine.Round, name string, refusal *QuorumError) {
	answered, failed, need := 0, 0, quorum.Majority(r.Nodes())
	for i := range r.Nodes() {
		switch r.Answer(i) {
		case quorum.Yes, quorum.No, quorum.Recreated:
			answered++
		case quorum.Pending:
		default:
			failed++
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.waits {
		switch {
		case answered >= need:
			w.since = time.Time{}
			if w.timer != nil {
				w.timer.Stop()
			}
		case r.Nodes()-failed < need && !r.Grant().Start.Before(w.begun):
			w.unreachable(o, r, name, refusal)
		}
	}
}

// unreachable records that a round reached no majority. Answers to a round are about its name alone: in a wait for
// another name such a node counts as not asked.
func (w *outageWait) unreachable(o *outages, r *engine.Round, name string, refusal *QuorumError) {
	nodes := slices.Clone(refusal.Nodes)
	for i := range nodes {
		if a := r.Answer(i); name != w.name && (a == quorum.Yes || a == quorum.No) {
			nodes[i].Err = nodeerr.ErrQueued
		}
	}
	w.last = &QuorumError{Op: string(event.OpAcquire), Name: w.name, Need: refusal.Need, Reason: ErrNoQuorum, Nodes: nodes}
	if !w.since.IsZero() {
		return
	}
	w.since = o.clock.Now()
	if w.timer == nil {
		w.timer = o.clock.AfterFunc(w.max, func() { o.expire(w) })
	} else {
		w.timer.Reset(w.max)
	}
}

// expire ends a wait if the outage still lasts.
func (o *outages) expire(w *outageWait) {
	o.mu.Lock()
	over, last := !w.since.IsZero() && o.clock.Now().Sub(w.since) >= w.max, w.last
	o.mu.Unlock()
	if over {
		w.giveUp(&outageError{last})
	}
}
