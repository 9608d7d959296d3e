package pool

import (
	"math/rand/v2"
	"time"
)

// backoff says when something that failed is tried again. The zero value: at once.
type backoff struct {
	pause time.Duration
	at    time.Time
}

// later puts it off. The pause doubles from minPause to the longest, and is shortened by
// up to half at random.
func (b *backoff) later(now time.Time, longest time.Duration) {
	b.pause = min(max(2*b.pause, minPause), longest)
	b.at = now.Add(b.pause - rand.N(b.pause/2))
}
