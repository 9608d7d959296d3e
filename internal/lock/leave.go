package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Left is what a holder's hold leaves when it ends.
type Left uint8

// What can be left.
const (
	Others  Left = iota // other holds of the same holder: nothing is to be done
	None                // no hold: the release is to begin, unless the lock is left to who knows the token
	Nothing             // there was no hold any more, and the release is under way or done
)

// Leave ends a hold. A hold that has ended before may be ended once more if its release had no quorum ([Term.Unsure]).
func (t *Term) Leave(now time.Time, h *quorum.Hold) Left {
	switch {
	case !h.Ended():
		if !h.Leave(now) {
			return Others
		}
	case !h.Current() || t.Holds() > 0 || t.leaving:
		return Nothing
	}
	t.leaving = true
	t.End(now, quorum.Released)
	t.Renewal = nil
	return None
}

// Unsure records that the release had no quorum.
func (t *Term) Unsure() { t.leaving = false }
