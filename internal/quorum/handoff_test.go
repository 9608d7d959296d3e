package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

const handoffMax = 2 * time.Second

func TestHandoff_PassesTheLockOnForABoundedTime(t *testing.T) {
	for name, tt := range map[string]struct {
		max, ttl time.Duration // ttl is that of the grant
		last     time.Duration // the last instant of a pass, less one nanosecond
	}{
		"max": {2 * time.Second, 10 * time.Second, 2 * time.Second},
		"a quarter of the validity, if that is less": {2 * time.Second, time.Second, 247 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(3, quorum.Grant{Start: start, TTL: tt.ttl, Drift: granted.Drift})
			h := quorum.NewHandoff(lease, tt.max, 0, 0)
			require.True(t, h.May(start, tt.ttl))
			require.True(t, h.May(start.Add(tt.last-1), tt.ttl))
			require.False(t, h.May(start.Add(tt.last), tt.ttl))
		})
	}
	never := quorum.NewHandoff(quorum.NewLease(3, granted), 0, 0, 0)
	require.False(t, never.May(start, granted.TTL))
}

func TestHandoff_DoesNotPassOnWhatIsNoLongerAsTheNodesGrantedIt(t *testing.T) {
	attached := quorum.NewAttach(1, quorum.Grant{Start: start, Drift: granted.Drift})
	attached.Observed(instant(start), 0, quorum.Yes, 0, granted.TTL, "")
	lease := attached.Lease(0)
	h := quorum.NewHandoff(&lease, handoffMax, 100, 3)
	require.False(t, h.May(start, granted.TTL), "somebody else knows the token of an attached lock")
	require.EqualValues(t, 100, h.Fence(), "that which the nodes hold")

	for name, change := range map[string]func(*quorum.Lease, *quorum.Handoff) (ttl time.Duration){
		"a lock that is lost": func(l *quorum.Lease, _ *quorum.Handoff) time.Duration {
			l.End(start, quorum.Lost)
			return granted.TTL
		},
		"a lock of which the token is known": func(_ *quorum.Lease, h *quorum.Handoff) time.Duration {
			h.Know()
			return granted.TTL
		},
		"a lock that may have got a longer TTL": func(l *quorum.Lease, _ *quorum.Handoff) time.Duration {
			new(quorum.Extend).Begin(l, quorum.Grant{Start: start, TTL: granted.TTL + time.Millisecond})
			return granted.TTL
		},
		"a lock with a shorter TTL than is asked for": func(*quorum.Lease, *quorum.Handoff) time.Duration {
			return granted.TTL + time.Millisecond
		},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(1, granted)
			h := quorum.NewHandoff(lease, handoffMax, 0, 0)
			require.True(t, h.May(start, granted.TTL))
			ttl := change(lease, &h)
			require.False(t, h.May(start, ttl))
		})
	}
	t.Run("but what was renewed is", func(t *testing.T) {
		lease := quorum.NewLease(1, granted)
		h := quorum.NewHandoff(lease, handoffMax, 0, 0)
		new(quorum.Extend).Begin(lease, granted)
		require.True(t, h.May(start, granted.TTL))
		require.True(t, h.May(start, granted.TTL-1))
	})
}

func TestHandoff_GivesEachHolderANumberOfTheBlock(t *testing.T) {
	lease := quorum.NewLease(1, granted)
	h := quorum.NewHandoff(lease, handoffMax, 100, 3)
	for _, number := range []uint64{98, 99} {
		require.Equal(t, number, h.Fence())
		require.True(t, h.May(start, granted.TTL))
		h.Pass()
	}
	require.EqualValues(t, 100, h.Fence())
	require.False(t, h.May(start, granted.TTL), "the block is used up")

	for _, block := range []uint64{0, 1} {
		h := quorum.NewHandoff(lease, handoffMax, 100, block)
		require.EqualValues(t, 100, h.Fence())
		require.False(t, h.May(start, granted.TTL))
	}
	plain := quorum.NewHandoff(lease, handoffMax, 0, 3)
	require.Zero(t, plain.Fence(), "without fencing there is no number, whatever was asked for")
	plain.Pass()
	require.Zero(t, plain.Fence())
	known := quorum.NewHandoff(lease, handoffMax, 100, 3)
	known.Know()
	require.EqualValues(t, 100, known.Fence(), "that which the nodes hold")
}

func TestHandoff_GivesEachHolderAHoldOfItsOwn(t *testing.T) {
	lease := quorum.NewLease(1, granted)
	h := quorum.NewHandoff(lease, handoffMax, 0, 0)
	first := lease.Hold()
	require.True(t, first.Leave(start))
	second := h.Pass()
	require.False(t, first.Current())
	require.Equal(t, quorum.Released, first.At(start))
	require.True(t, second.Current())
	require.Equal(t, quorum.Held, second.At(start))
	require.Equal(t, 1, lease.Holds())

	lease.End(start, quorum.Lost)
	require.Equal(t, quorum.Released, first.At(start))
	require.Equal(t, quorum.Lost, second.At(start))
	require.True(t, second.Leave(start))
	require.Equal(t, quorum.Lost, second.At(start))
}

var passing = func() quorum.Pace {
	p := steady
	p.Handoff = handoffMax
	return p
}()

func TestQueue_HasALockPassedOnToTheHead(t *testing.T) {
	c := newDriver(1, passing)
	c.run(t, []step{{"join 1", "try"}, {"join 2", ""}})
	_, ok := c.Next(c.now)
	require.False(t, ok, "while its round asks the nodes")
	c.run(t, []step{{"4ms: won", "tick 10s"}})
	h := c.handoff()
	head, ok := c.Next(c.now)
	require.True(t, ok)
	require.Equal(t, 2, head)
	require.False(t, c.Deserted())
	require.Empty(t, actionsInWords(c.Passed(c.now, h)))
	require.Zero(t, c.Len())
	require.True(t, c.Deserted(), "the one before may come back")
	require.False(t, c.Idle(c.now))
	c.run(t, []step{{"join 1", "tick 10s"}, {"5ms: unlocked", "try"}})
}

func TestQueue_HasALockPassedOnThatDidNotComeFromIt(t *testing.T) {
	c := newDriver(1, passing)
	c.run(t, []step{
		{"join 1", "try"},
		{"4ms: lost", "observe 0, tick 30.004s"},
		{"0 held self.1 for 9s", "tick 9.005s"},
		{"join 2", ""},
	})
	h := quorum.NewHandoff(quorum.NewLease(1, granted), handoffMax, 0, 0)
	require.Equal(t, "tick 10s", actionsInWords(c.Passed(c.now, &h)), "when the lock ends at the latest")
	c.run(t, []step{{"1s: unlocked", "try"}})
}

func TestQueue_KnowsNothingOfKeysWithoutATTLBeforeALockWasPassedOn(t *testing.T) {
	c := newDriver(3, passing)
	c.run(t, []step{
		{"join 1", "try"},
		{"4ms: lost", "observe 0 1 2, tick 30.004s"},
		{"0 held self.1 for 9s", "tick 9.005s"},
		{"2 held x.1", "*"},
	})
	h := quorum.NewHandoff(quorum.NewLease(3, granted), handoffMax, 0, 0)
	require.Empty(t, actionsInWords(c.Passed(c.now, &h)))
	c.run(t, []step{
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
func TestQueue_LetsOthersGoFirstAfterALockWasKeptForLong(t *testing.T) {
	c := newDriver(1, passing)
	c.run(t, []step{{"join 1", "try"}, {"join 2", ""}, {"4ms: won", "tick 10s"}})
	c.run(t, []step{{"1.998s: unlocked", "try"}, {"1.999s: won", ""}, {"join 3", "tick 11.995s"}})
	_, ok := c.Next(c.now)
	require.True(t, ok)
	_, ok = c.Next(start.Add(2 * time.Second))
	require.False(t, ok, "nor is it passed on, though the nodes have just granted it")
	c.run(t, []step{{"2.001s: unlocked", "tick 2.009s"}})
	c.run(t, []step{{"join 4", ""}, {"2.009s: tick", "try"}, {"2.01s: won", "*"}, {"2.011s: unlocked", "try"}})
}

func TestQueue_HasKeptALockForNoTimeIfItWasFreeMeanwhile(t *testing.T) {
	c := newDriver(1, passing)
	c.run(t, []step{{"join 1", "try"}, {"4ms: won", ""}, {"16.998ms: unlocked", ""}, {"join 1", "try"}})
	c.run(t, []step{{"36.998ms: won", ""}, {"join 2", "*"}, {"2s: unlocked", "try"}}) // four round trips without the lock

	c = newDriver(1, passing)
	c.run(t, []step{{"join 1", "try"}, {"4ms: won", ""}, {"16.999ms: unlocked", ""}, {"join 1", "try"}})
	c.run(t, []step{{"36.998ms: won", ""}, {"join 2", "*"}, {"2s: unlocked", "tick 2.008s"}})
}

func TestQueue_AsksForABlockOfNumbersIfSomebodyElseWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		pace quorum.Pace
		took time.Duration // that each round takes
		want uint64        // in the end
	}{
		"one for every two microseconds that rounds take": {passing, 200 * time.Microsecond, 99},
		"with a limit":         {passing, time.Second, 4096},
		"one of quick rounds":  {passing, time.Microsecond, 1},
		"one without hand-off": {steady, 200 * time.Microsecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newDriver(1, tt.pace)
			c.run(t, []step{{"join 1", "try"}})
			require.EqualValues(t, 1, c.Block(), "nobody else waits")
			var reserved uint64
			for i := range 60 {
				c.do(t, fmt.Sprint("join ", i+2))
				reserved += c.Block()
				d := uint64(i+1) * uint64(tt.took.Microseconds())
				require.LessOrEqual(t, reserved, max(d/2, uint64(i+1)), "so many in all")
				c.Won(c.now, quorum.Grant{Start: c.now.Add(-tt.took), TTL: granted.TTL})
				c.do(t, "unlocked")
			}
			c.do(t, "join 0")
			require.Equal(t, tt.want, c.Block())
		})
	}
}

// The danger: rounds that were slow and are quick now, and lost. Each would ask for a block of the old size, and drive the
// counters of the nodes that grant it ahead of the clocks.
func TestQueue_AsksForLessAfterEachRoundThatItDoesNotWin(t *testing.T) {
	const took, rounds = 20 * time.Millisecond, 60
	for name, missed := range map[string]func(t *testing.T, c *driver, i int){
		"lost": func(t *testing.T, c *driver, _ int) { c.Lost(c.now); c.Tick(c.now.Add(time.Minute)) },
		"given up": func(t *testing.T, c *driver, i int) {
			c.do(t, fmt.Sprint("join ", i+1000))
			head, _ := c.Head()
			c.Leave(c.now, head)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newDriver(1, passing)
			c.run(t, []step{{"join 1", "try"}})
			for i := range rounds {
				c.do(t, fmt.Sprint("join ", i+2))
				c.Won(c.now, quorum.Grant{Start: c.now.Add(-took), TTL: granted.TTL})
				c.do(t, "unlocked")
			}
			c.do(t, fmt.Sprint("join ", rounds+2))
			require.EqualValues(t, 4096, c.Block())
			reserved := uint64(0)
			for i := range 1000 {
				if block := c.Block(); block > 1 {
					reserved += block
				}
				missed(t, c, i)
			}
			require.LessOrEqual(t, reserved, uint64(rounds*took.Microseconds()/2))
			require.EqualValues(t, 1, c.Block())
		})
	}
}

// handoff is that of a lock that has just been won.
func (d *driver) handoff() *quorum.Handoff {
	grant := granted
	grant.Start = d.now.Add(-steady.First)
	h := quorum.NewHandoff(quorum.NewLease(1, grant), handoffMax, 0, 0)
	return &h
}
