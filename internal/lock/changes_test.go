package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChanges_OnlyTokensCount(t *testing.T) {
	d := newDriver(t, 3, steady)
	d.do("join 1")
	d.do("lost")
	changes := func() (at time.Duration, between time.Duration) {
		c := d.Changes()
		if c.At.IsZero() {
			return -1, c.Between
		}
		return c.At.Sub(start), c.Between
	}
	for _, s := range []struct {
		event       string
		at, between time.Duration
	}{
		{"0 held a.1 for 1s", -1, 0},
		{"1 held a.1 for 1s", -1, 0},
		{"10ms: 0 changed", -1, 0},
		{"10ms: 0 held a.1 for 1s", -1, 0}, // it was renewed
		{"20ms: 0 held b.1 for 1s", 20 * time.Millisecond, 0},
		{"30ms: 1 held b.1 for 1s", 20 * time.Millisecond, 0},
		{"40ms: 2 held a.0 for 1s", 20 * time.Millisecond, 0}, // it is behind
		{"60ms: 1 free", 60 * time.Millisecond, 40 * time.Millisecond},
		{"60ms: 0 held c.1 for 1s", 60 * time.Millisecond, 40 * time.Millisecond},
		{"80ms: 0 held |shared for 1s", 80 * time.Millisecond, 35 * time.Millisecond},
		{"90ms: 0 held |shared for 2s", 80 * time.Millisecond, 35 * time.Millisecond},
		{"90ms: 0 silent", 80 * time.Millisecond, 35 * time.Millisecond},
		{"90ms: 0 data", 80 * time.Millisecond, 35 * time.Millisecond},
	} {
		d.do(s.event)
		at, between := changes()
		require.Equal(t, []time.Duration{s.at, s.between}, []time.Duration{at, between}, s.event)
	}
}

func TestChanges_OneLongTimeCountsTwiceTheUsual(t *testing.T) {
	d := newDriver(t, 1, steady)
	for _, s := range []struct {
		event   string
		between time.Duration
	}{
		{"join 1", 0},
		{"lost", 0},
		{"0 held a.1 for 1s", 0},
		{"10ms: 0 held b.1 for 1s", 0},
		{"50ms: 0 held c.1 for 1s", 40 * time.Millisecond},
		{"950ms: 0 held d.1 for 1s", 50 * time.Millisecond},
		{"960ms: 0 held e.1 for 1s", 40 * time.Millisecond},
	} {
		d.do(s.event)
		require.Equal(t, s.between, d.Changes().Between, s.event)
	}
}
