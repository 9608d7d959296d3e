package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// numbers is the basis of how many fencing numbers a round asks for, and of their lower bound.
type numbers struct {
	took  time.Duration // smoothed duration of the rounds that were won; it starts at 0
	floor uint64        // the highest number that a lost round was granted since the last round that was won
}

// block returns how many numbers the round that begins asks for: one for every two microseconds that rounds take. All
// rounds of a process, lost ones included, ask for at most one number for every two microseconds that its won rounds
// took. The estimate ensures that, because it starts at 0 and lags. A round that wins a name overlaps with one other
// such round at most, so counters do not run ahead of the clocks; see docs/fencing.md.
func (n *numbers) block() uint64 {
	return uint64(min(max(n.took.Microseconds()/2, 1), quorum.MaxBlock))
}

// won records the duration of a round that was won.
func (n *numbers) won(took time.Duration) { n.took += (took - n.took) / 8 }

// missed records that a round was not won. The numbers that it asked for are used up where they were granted.
func (n *numbers) missed() { n.took -= n.took / 8 }
