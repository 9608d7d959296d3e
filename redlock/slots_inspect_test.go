package redlock_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// takeSlots takes all of n slots of a name one after the other, so that each is the same on all servers.
func (c *cluster) takeSlots(name string, n int, opts ...redlock.LockOption) (locks []*redlock.Lock) {
	c.tb.Helper()
	for i := range n {
		locks = append(locks, got(c.locker().TryLock(c.tb.Context(), name, append(append(opts, redlock.Metadata(fmt.Sprint("of ", i))), redlock.Slots(n))...))(c.tb))
		c.shared(name, i+1)
	}
	return locks
}

// slots returns in which slot each node has each of some locks; - for none.
func (c *cluster) slots(name string, locks ...*redlock.Lock) (all [][]string) {
	for _, lock := range locks {
		var of []string
		for i := range c.servers {
			if c.do(i, "ZSCORE", "{"+name+"}:sharers", lock.Token()) == nil {
				of = append(of, "-")
				continue
			}
			of = append(of, fmt.Sprintf("%s", c.do(i, "ZSCORE", "{"+name+"}:slots", lock.Token())))
		}
		all = append(all, of)
	}
	return all
}

func TestInspect_ShowsTheSlotsWithTheirSlots(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locks := c.takeSlots("name", 2, redlock.TTL(long))
		slotsOf := map[redlock.Token]string{}
		for i, of := range c.slots("name", locks...) {
			require.Equal(t, []string{of[0], of[0], of[0]}, of, "they came one after the other")
			slotsOf[locks[i].Token()] = of[0]
		}
		c.do(2, "ZREM", "{name}:sharers", locks[1].Token())
		c.do(2, "ZREM", "{name}:slots", locks[1].Token())
		locker := c.locker(redlock.WithFencing())
		s := inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictHeld, s.Verdict)
		require.Equal(t, redlock.KindSlot, s.Kind)
		require.False(t, s.WriterWaits)
		require.Len(t, s.Holders, 2)
		for _, h := range s.Holders {
			i := slices.IndexFunc(locks, func(l *redlock.Lock) bool { return l.Token() == h.Token })
			require.Equal(t, slotsOf[h.Token], fmt.Sprint(h.Slot))
			require.Equal(t, fmt.Sprint("of ", i), h.Metadata)
			require.Equal(t, 3-i, h.Nodes)
			require.Zero(t, h.Fence)
		}
		for i, slots := range []int{2, 2, 1} {
			n := s.Nodes[i]
			require.Len(t, n.Holders, slots)
			n.Holders = nil
			require.Equal(t, redlock.NodeState{Addr: c.servers[i].Addr(), Kind: redlock.KindSlot, TTL: n.TTL}, n)
		}

		c.do(0, "ZADD", "{name}:slots", "9", locks[1].Token())
		s = inspect(t, locker, "name")
		require.Len(t, s.Holders, 1, "the other has no slot on a majority")
		require.Equal(t, locks[0].Token(), s.Holders[0].Token)
		c.do(0, "ZREM", "{name}:slots", locks[0].Token())
		s = inspect(t, locker, "name")
		require.Equal(t, 2, s.Holders[0].Nodes)
		i := slices.IndexFunc(s.Nodes[0].Holders, func(h redlock.Holder) bool { return h.Token == locks[0].Token() })
		require.Equal(t, -1, s.Nodes[0].Holders[i].Slot)
		removed := must(locker.ForceUnlock(t.Context(), "name"))(t)
		require.Len(t, removed, 3, "and the other once for each of its slots")
		removed[2].TTL = s.Holders[0].TTL
		require.Equal(t, s.Holders, removed[2:])
		other := redlock.Holder{Token: locks[1].Token(), Metadata: "of 1", Nodes: 1}
		on0, on1 := other, other
		on0.Slot, on1.Slot = 9, must(strconv.Atoi(slotsOf[other.Token]))(t)
		require.ElementsMatch(t, []redlock.Holder{on0, on1}, removed[:2])
		c.eventuallyEmpty()
		for _, lock := range locks {
			require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		}
	})
}

func TestInspect_TellsWhetherAWriterWaits(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for kind, lock := range map[redlock.Kind]*redlock.Lock{
			redlock.KindShared: read(t, locker, "shared"), redlock.KindSlot: got(locker.TryLock(t.Context(), "slot", redlock.Slots(1)))(t),
		} {
			name := string(kind)
			c.shared(name, 1)
			wanted := "{" + name + "}:wanted"
			require.False(t, inspect(t, locker, name).WriterWaits)
			c.do(2, "SET", wanted, "somebody's", "PX", long.Milliseconds())
			c.want(1, name, "3|process|slots") // it does not mind two more
			require.False(t, inspect(t, locker, name).Nodes[0].WriterWaits)
			var s *redlock.LockState
			eventually(t, func() bool { // what a writer sets is soon over
				c.want(1, name, "0|process")
				s = inspect(t, locker, name)
				return s.Nodes[0].WriterWaits
			}, "a node has been told")
			require.False(t, s.WriterWaits)
			require.False(t, s.Nodes[1].WriterWaits)
			eventually(t, func() bool {
				c.want(2, name, "0|process")
				return inspect(t, locker, name).WriterWaits
			}, "two have been told")
			c.doAll("DEL", wanted)
			unlock(t, lock)
		}
		c.eventuallyEmpty()
	})
}

// The danger: who has taken up a slot extends it in another slot, which somebody else has, or gets.
func TestAttach_TakesUpASlotInItsSlot(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locks := c.takeSlots("name", 2)
		before := c.slots("name", locks...)
		locker := c.locker(redlock.WithFencing())
		var attached []*redlock.Lock
		for i, lock := range locks {
			a := got(locker.Attach(t.Context(), "name", detach(t, lock)))(t)
			require.Equal(t, redlock.KindSlot, a.Kind())
			require.Equal(t, lock.Token(), a.Token())
			require.Zero(t, a.Fence())
			attached = append(attached, a)
			c.do(i, "ZREM", "{name}:sharers", a.Token())
			c.do(i, "ZREM", "{name}:slots", a.Token())
		}
		for _, a := range attached { // each has another majority
			require.NoError(t, a.Extend(t.Context(), long))
			require.Greater(t, a.Remaining(), long/2)
		}
		c.shared("name", 2)
		require.Equal(t, before, c.slots("name", attached...))
		_, err := locker.TryLock(t.Context(), "name", redlock.Slots(2))
		requireIs(t, err, redlock.ErrTaken, nodeerr.ErrFull)
		unlock(t, attached[0])
		third := got(locker.TryLock(t.Context(), "name", redlock.Slots(2)))(t)
		c.shared("name", 2)
		require.Equal(t, before[:1], c.slots("name", third))
		unlock(t, attached[1], third)
		c.eventuallyEmpty()
		require.ErrorIs(t, errOf(locker.Attach(t.Context(), "name", locks[0].Token())), redlock.ErrNotHeld)
	})
}

func TestAttach_RefusesASlotWithoutASlotOnAMajority(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := c.takeSlots("name", 1)[0]
		locker := c.locker()
		token := detach(t, lock)
		c.do(0, "ZADD", "{name}:slots", "7", token)
		require.NoError(t, errOf(locker.Attach(t.Context(), "name", token)), "two have the same")
		c.do(1, "ZADD", "{name}:slots", "8", token)
		err := errOf(c.locker().Attach(t.Context(), "name", token))
		requireIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "slot")
		c.doAll("DEL", "{name}:slots")
		requireIs(t, errOf(c.locker().Attach(t.Context(), "name", token)), redlock.ErrNotHeld)
		c.doAll("DEL", "name", "{name}:sharers")
	})
}
