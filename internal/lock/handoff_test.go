package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lock"
)

var passing = func() lock.Pace {
	p := steady
	p.Handoff = 2 * time.Second
	return p
}()

func TestPass_GoesToTheFirstThatWaits(t *testing.T) {
	c := newDriver(t, 1, passing)
	c.run([]step{{"join 1", "try"}, {"4ms: won", ""}, {"join 2", "tick 10s"}, {"join 3", ""}})
	require.Equal(t, 2, c.Next(c.lease, &c.hold).Of)
	require.False(t, c.Deserted())
	c.run([]step{{"passed", ""}, {"passed", ""}})
	require.Empty(t, c.Waiting())
	require.Nil(t, c.Next(c.lease, &c.hold))
	require.True(t, c.Deserted(), "the one before may come back")
	require.False(t, c.Idle())
	c.run([]step{{"join 1", "tick 10s"}, {"5ms: unlocked", "try"}})
	c.run([]step{{"tried", "*"}})
	require.Nil(t, c.Next(c.lease, &c.hold), "while its round asks the nodes")
}

func TestPass_OfALockThatWasNotWaitedFor(t *testing.T) {
	c := newDriver(t, 1, passing)
	c.run([]step{
		{"tried", ""},
		{"join 1", "try"},
		{"4ms: lost", "observe 0, tick 30.004s"},
		{"0 held self.1 for 9s", "tick 9.005s"},
		{"join 2", ""},
		{"passed", "tick 10s"}, // when the lock ends at the latest
		{"1s: unlocked", "try"},
	})
}

func TestPass_ForgetsTheKeysWithoutATTLThatWereKnownBefore(t *testing.T) {
	newDriver(t, 3, passing).run([]step{
		{"tried", ""},
		{"join 1", "try"},
		{"4ms: lost", "observe 0 1 2, tick 30.004s"},
		{"0 held self.1 for 9s", "tick 9.005s"},
		{"2 held x.1", "*"},
		{"passed", ""},
		{"1s: unlocked", ""},
		{"1 free", ""}, // which nobody waits for, and heals nothing
		{"denied", "observe 0 1 2"},
		{"2 held x.1", ""},
		{"1.999s: denied", "observe 2"},
		{"2s: 2 held x.1", "observe 2"}, // a second after it was seen
		{"2 held x.1", "heal 2"},
	})
}

// Otherwise a process whose goroutines come back again and again would keep the lock for ever.
func TestPass_LetsOthersGoFirstAfterALockWasKeptForLong(t *testing.T) {
	c := newDriver(t, 1, passing)
	c.run([]step{{"join 1", "try"}, {"join 2", ""}, {"4ms: won", "tick 10s"}})
	c.run([]step{{"1.998s: unlocked", "try"}, {"1.999s: won", ""}, {"join 3", "tick 11.995s"}})
	require.NotNil(t, c.Next(c.lease, &c.hold))
	c.now = start.Add(2 * time.Second)
	require.Nil(t, c.Next(c.lease, &c.hold), "nor is it handed off, though the nodes have just granted it")
	c.run([]step{{"2.001s: unlocked", "tick 2.009s"}})
	c.run([]step{{"join 4", ""}, {"2.009s: tick", "try"}, {"2.01s: won", "*"}, {"2.011s: unlocked", "try"}})
}

func TestPass_HasKeptALockForNoTimeIfItWasFreeMeanwhile(t *testing.T) {
	c := newDriver(t, 1, passing)
	c.run([]step{{"join 1", "try"}, {"4ms: won", ""}, {"16.998ms: unlocked", ""}, {"join 1", "try"}})
	c.run([]step{{"36.998ms: won", ""}, {"join 2", "*"}, {"2s: unlocked", "try"}}) // four round trips without the lock

	c = newDriver(t, 1, passing)
	c.run([]step{{"join 1", "try"}, {"4ms: won", ""}, {"16.999ms: unlocked", ""}, {"join 1", "try"}})
	c.run([]step{{"36.998ms: won", ""}, {"join 2", "*"}, {"2s: unlocked", "tick 2.008s"}})
}

// block has the first call win a round, and returns for how many numbers that asked.
func (d *driver) block(took time.Duration) uint64 {
	a := d.ask(d.Waiting()[0], took)
	d.won(took)
	d.do("unlocked")
	return a.Ask.Block
}

func TestPass_AsksForABlockOfNumbersIfSomebodyElseWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		pace lock.Pace
		took time.Duration // that each round takes
		want uint64        // in the end
	}{
		"one for every two microseconds that rounds take": {passing, 200 * time.Microsecond, 99},
		"with a limit":         {passing, time.Second, 4096},
		"one of quick rounds":  {passing, time.Microsecond, 1},
		"one without hand-off": {steady, 200 * time.Microsecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newDriver(t, 1, tt.pace)
			c.run([]step{{"join 1", "try"}})
			require.EqualValues(t, 1, c.ask(c.Waiting()[0], 0).Ask.Block, "nobody else waits")
			var reserved uint64
			for i := range 60 {
				c.do(fmt.Sprint("join ", i+2))
				reserved += c.block(tt.took)
				d := uint64(i+1) * uint64(tt.took.Microseconds())
				require.LessOrEqual(t, reserved, max(d/2, uint64(i+1)), "so many in all")
			}
			c.do("join 0")
			require.Equal(t, tt.want, c.block(0))
		})
	}
}

// The danger: rounds that were slow and are quick now, and lost. Each would ask for a block of the old size, and drive the
// counters of the nodes that grant it ahead of the clocks.
func TestPass_AsksForLessAfterEachRoundThatItDoesNotWin(t *testing.T) {
	const took, rounds = 20 * time.Millisecond, 60
	for name, missed := range map[string]func(c *driver, i int){
		"lost": func(c *driver, _ int) {
			c.do("lost")
			c.now = c.now.Add(time.Minute)
			c.do("tick")
		},
		"given up": func(c *driver, i int) {
			c.do(fmt.Sprint("join ", i+1000))
			c.Leave(nil, c.Waiting()[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newDriver(t, 1, passing)
			c.run([]step{{"join 1", "try"}})
			for i := range rounds {
				c.do(fmt.Sprint("join ", i+2))
				c.block(took)
			}
			c.do(fmt.Sprint("join ", rounds+2))
			block := func() uint64 { return c.ask(c.Waiting()[0], 0).Ask.Block }
			require.EqualValues(t, 4096, block())
			reserved := uint64(0)
			for i := range 1000 {
				if b := block(); b > 1 {
					reserved += b
				}
				missed(c, i)
			}
			require.LessOrEqual(t, reserved, uint64(rounds*took.Microseconds()/2))
			require.EqualValues(t, 1, block())
		})
	}
}

func TestHandOff_OfTheFirstOfTwoLocks(t *testing.T) {
	d := newDriver(t, 1, passing)
	d.run([]step{{"tried", ""}})
	first, hold := d.lease, d.hold
	d.run([]step{{"join 1", "try"}, {"won", ""}, {"join 2", "tick 9.996s"}}) // the nodes had lost it
	d.lease, d.hold = first, hold
	d.run([]step{{"passed", ""}})
}
