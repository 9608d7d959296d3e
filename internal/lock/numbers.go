package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// numbers is how many fencing numbers a round asks for, and above which one.
type numbers struct {
	took  time.Duration // smoothed duration of the rounds that were won, from 0 on
	floor uint64        // the highest number that a lost round was granted since the last round that was won
}

// block returns how many numbers to ask for in the round that begins: one for every two microseconds that rounds take. A process
// asks in all, rounds that it does not win included, for half the microseconds at most that the rounds took which it has won, as the
// estimate begins with 0 and lags. Rounds that win a name overlap by one at most, so that counters do not run ahead of the
// clocks; see docs/safety.md.
func (n *numbers) block() uint64 {
	return uint64(min(max(n.took.Microseconds()/2, 1), quorum.MaxBlock))
}

// won takes the duration of a round that was won.
func (n *numbers) won(took time.Duration) { n.took += (took - n.took) / 8 }

// missed records that a round was not won. The numbers that it asked for are used up where they were granted.
func (n *numbers) missed() { n.took -= n.took / 8 }
