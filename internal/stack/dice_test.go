package stack_test

import (
	"math/rand/v2"
	"time"
)

// dice make the choices of a plan.
type dice interface {
	// roll returns a number from 0 to below n, which is at most 256.
	roll(n int) int
}

// seeded are dice that fall the same way for the same seed.
type seeded struct{ *rand.Rand }

func newSeeded(seed uint64) seeded { return seeded{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))} }

func (s seeded) roll(n int) int { return s.IntN(n) }

// tape are dice that fall as the bytes determine, and on 0 when there are none left.
type tape struct{ bytes []byte }

func (t *tape) roll(n int) int {
	if len(t.bytes) == 0 {
		return 0
	}
	b := int(t.bytes[0])
	t.bytes = t.bytes[1:]
	return b % n
}

// oneIn is true for one roll of n, the highest: dice that have run out make nothing special.
func oneIn(d dice, n int) bool { return d.roll(n) == n-1 }

func pick[T any](d dice, from ...T) T { return from[d.roll(len(from))] }

// upTo returns a duration in steps, from none to n of them. Few different ones make that
// things happen at the same instant, which is when things go wrong.
func upTo(d dice, n int, step time.Duration) time.Duration { return time.Duration(d.roll(n+1)) * step }
