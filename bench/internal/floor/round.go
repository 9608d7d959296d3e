package floor

import (
	"errors"
	"sync"
	"sync/atomic"
)

// errRefused says that no majority has replied what a free lock, or a held one, gives.
var errRefused = errors.New("floor: no majority of nodes said yes")

// round is one command on all nodes. It goes back to its pool when all nodes have replied and the caller has gone.
type round struct {
	pool     *sync.Pool
	nodes    uint64
	majority uint64
	yes      byte          // first byte of the reply that is wanted
	verdict  chan bool     // takes one
	state    atomic.Uint64 // counts of what follows
}

const (
	replied = 1       // a node has replied
	agreed  = 1 << 16 // and has said yes
	left    = 1 << 32 // the caller has gone
	count   = 1<<16 - 1
)

func newRound(nodes int, pool *sync.Pool) *round {
	return &round{pool: pool, nodes: uint64(nodes), majority: uint64(nodes/2 + 1), verdict: make(chan bool, 1)}
}

func (r *round) begin(yes byte) {
	r.yes = yes
	r.state.Store(0)
}

// reply takes one node's reply, and wakes the caller at the majority's yes or when none can come any more.
func (r *round) reply(yes bool) {
	var now uint64
	if yes {
		now = r.state.Add(replied + agreed)
		if now/agreed&count == r.majority {
			r.verdict <- true
		}
	} else {
		now = r.state.Add(replied)
	}
	if now&count == r.nodes && now/agreed&count < r.majority {
		r.verdict <- false
	}
	r.settle(now)
}

// wait returns the verdict. The round must not be used after it.
func (r *round) wait() error {
	yes := <-r.verdict
	r.settle(r.state.Add(left))
	if !yes {
		return errRefused
	}
	return nil
}

// settle gives the round back when now is the last that happens to it.
func (r *round) settle(now uint64) {
	if now&count == r.nodes && now >= left {
		r.pool.Put(r)
	}
}
