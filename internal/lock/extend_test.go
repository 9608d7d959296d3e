package lock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// extension is an extension that a test asks for, and who receives what comes of it.
type extension struct{ lock.Extend }

func (*extension) Reply(wire.Tag, *wire.Reply) {}

// came returns what has come of something: which extensions have ended, and which has been sent to the nodes.
func came(acts []lock.Act) (ended []*extension, sent *extension) {
	for _, a := range acts {
		switch e, _ := a.To.(*extension); {
		case e == nil:
		case a.What == lock.End:
			ended = append(ended, e)
		case a.What == lock.Send:
			sent = e
		}
	}
	return ended, sent
}

// answers has all nodes say yes to an extension, and returns what comes of it.
func (d *driver) answers(e *extension) (acts []lock.Act) {
	for i := range d.rules.Nodes {
		acts = e.Answered(acts, d, wire.Tag{Node: uint16(i)}, &wire.Reply{Answer: quorum.Yes})
	}
	return acts
}

func (d *driver) extend() (*extension, []lock.Act) {
	e := new(extension)
	return e, d.lease.Extend(nil, &e.Extend, d.ttl, &d.hold, e)
}

// The danger: renewals that follow each other keep an Extend waiting.
func TestExtend_GoesInTheOrderOfTheCalls(t *testing.T) {
	d := newDriver(t, 3, steady)
	d.run([]step{{"tried", ""}})
	d.lease.Renew(d.now, &lock.Want{TTL: d.ttl, MaxHold: lock.NoLimit})
	first, acts := d.extend()
	_, sent := came(acts)
	require.Same(t, first, sent)
	renewal := new(extension)
	require.Empty(t, d.lease.Due(nil, &renewal.Extend, renewal))
	require.True(t, d.lease.Renewing())
	gone, acts := d.extend()
	require.Empty(t, acts)
	last, acts := d.extend()
	require.Empty(t, acts)
	require.Equal(t, wire.Receiver(last), d.lease.Extending())

	ended, sent := came(gone.GiveUp(nil, d))
	require.Equal(t, []*extension{gone}, ended)
	require.Equal(t, quorum.Undecided, gone.Outcome())
	require.Nil(t, sent)
	require.Empty(t, gone.GiveUp(nil, d), "it has ended")

	d.now = d.now.Add(d.ttl / 2)
	ended, sent = came(d.answers(first))
	require.Equal(t, []*extension{first}, ended)
	require.Same(t, renewal, sent)
	require.Equal(t, start.Add(d.ttl), first.Before)
	require.Equal(t, start.Add(d.ttl), renewal.Before)
	ended, sent = came(d.answers(renewal))
	require.Equal(t, []*extension{renewal}, ended)
	require.Same(t, last, sent)
	require.False(t, d.lease.Renewing())
	ended, _ = came(d.answers(last))
	require.Equal(t, []*extension{last}, ended)
	require.Nil(t, d.lease.Extending())
}

// Who waits for his turn may have unlocked the lock when it comes, or the process may have closed everything.
func TestExtend_AsksNobodyIfItIsNotWantedAnyMore(t *testing.T) {
	for name, ends := range map[string]func(d *driver){
		"unlocked":              func(d *driver) { d.lease.Leave(d.now, &d.hold) },
		"closed":                func(d *driver) { d.rules.Closed = func() bool { return true } },
		"over":                  func(d *driver) { d.now = d.now.Add(time.Hour) },
		"handed off to another": func(d *driver) { d.do("join 1"); d.do("lost"); d.do("passed") },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, 3, passing)
			d.run([]step{{"tried", ""}})
			mine := d.hold
			first, _ := d.extend()
			second := new(extension)
			require.Empty(t, d.lease.Extend(nil, &second.Extend, d.ttl, &mine, second))
			ends(d)
			ended, sent := came(d.answers(first))
			require.Equal(t, []*extension{first, second}, ended)
			require.Nil(t, sent)
			require.Equal(t, quorum.Undecided, second.Outcome())
			require.Zero(t, second.Before)
		})
	}
}

// The handle that has the lock renewed may be unlocked while another handle still holds the lock: from then on the TTL counts.
func TestDue_ARenewalThatWaitedIsNotSentAfterTheRenewalsEnded(t *testing.T) {
	d := newDriver(t, 3, steady)
	d.run([]step{{"tried", ""}})
	d.lease.Renew(d.now, &lock.Want{TTL: d.ttl, MaxHold: lock.NoLimit})
	first, _ := d.extend()
	renewal := new(extension)
	require.Empty(t, d.lease.Due(nil, &renewal.Extend, renewal))
	d.lease.Renewal = nil
	ended, sent := came(d.answers(first))
	require.Equal(t, []*extension{first, renewal}, ended)
	require.Nil(t, sent)

	later := new(extension)
	ended, _ = came(d.lease.Due(nil, &later.Extend, later))
	require.Equal(t, []*extension{later}, ended, "nor if it comes later")
	require.Empty(t, later.GiveUp(nil, d), "it has ended")
}

// The danger: the answer that is under way on a node is to an extension that has no key tracked, and its change would be told to nobody.
func TestDue_HasTheKeyTrackedWhereAnExtensionIsUnderWay(t *testing.T) {
	d := newDriver(t, 3, steady)
	d.run([]step{{"tried", ""}})
	d.lease.Renew(d.now, &lock.Want{TTL: d.ttl, MaxHold: lock.NoLimit})
	longer := new(extension)
	d.lease.Extend(nil, &longer.Extend, 3*d.ttl, &d.hold, longer)
	for node := range uint16(2) {
		longer.Answered(nil, d, wire.Tag{Node: node}, &wire.Reply{Answer: quorum.Yes})
	}
	require.Equal(t, quorum.Done, longer.Outcome())

	renewal := new(extension)
	var asked []uint16
	for _, a := range d.lease.Due(nil, &renewal.Extend, renewal) {
		if a.Tag.What == lock.Observe {
			asked = append(asked, a.Tag.Node)
		}
	}
	require.Equal(t, []uint16{0, 1, 2}, asked)
}

// The danger: a lock that ends by itself, as it may not be renewed for longer, leaves what a renewal that failed has left.
func TestDue_FindsThatALockIsOver(t *testing.T) {
	d := newDriver(t, 3, steady)
	d.run([]step{{"tried", ""}})
	d.lease.Renew(d.now, &lock.Want{TTL: d.ttl, MaxHold: lock.NoLimit})
	d.now = d.now.Add(d.ttl)
	renewal := new(extension)
	acts := d.lease.Due(nil, &renewal.Extend, renewal)
	require.True(t, slices.ContainsFunc(acts, func(a lock.Act) bool { return a.What == lock.Over }))
}

// A renewal that a node has not answered comes behind what the node shows.
func TestTerm_AKeyThatIsCutBehindTheAnswerToARenewalIsRenewedOnceMore(t *testing.T) {
	for name, answered := range map[string]bool{"behind the answer": true, "before it": false} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, 3, steady)
			d.run([]step{{"tried", ""}})
			d.lease.Renew(d.now, &lock.Want{TTL: d.ttl, MaxHold: lock.NoLimit})
			renewal := new(extension)
			d.now = d.now.Add(d.ttl / 3)
			d.lease.Due(nil, &renewal.Extend, renewal)
			yes := &wire.Reply{Answer: quorum.Yes}
			if answered {
				require.Empty(t, renewal.Answered(nil, d, wire.Tag{Node: 0}, yes))
			}
			shown := &wire.Reply{Answer: quorum.Yes, Value: d.lease.ID().Token, TTL: 50 * time.Millisecond}
			require.Empty(t, d.lease.Answered(nil, wire.Tag{What: lock.Observe, Node: 0, Serial: 1}, shown))
			for i := range uint16(3) {
				if i > 0 || !answered {
					renewal.Answered(nil, d, wire.Tag{Node: i}, yes)
				}
			}
			require.Equal(t, quorum.Done, renewal.Outcome())
			due, ok := d.lease.Renewal.Next(&d.lease.Lease, d.now)
			require.True(t, ok)
			require.Equal(t, answered, !due.After(d.now))
		})
	}
}

// The danger: an observation that is begun while another is under way counts as under way for ever, so that no push leads to another.
func TestLease_AnObservationThatIsBegunOnceMoreIsNotAwaitedTwice(t *testing.T) {
	d := newDriver(t, 3, steady)
	d.run([]step{{"tried", ""}})
	untracked := func() (asked []wire.Tag) { // a renewal that is not sent, as it would not move the deadline
		d.lease.Renew(d.now, &lock.Want{TTL: d.ttl / 10, MaxHold: lock.NoLimit})
		d.lease.Tracked = false
		renewal := new(extension)
		for _, a := range d.lease.Due(nil, &renewal.Extend, renewal) {
			if a.Tag.What == lock.Observe && a.What == lock.Send {
				asked = append(asked, a.Tag)
			}
		}
		return asked
	}
	first, second := untracked(), untracked()
	require.Len(t, first, 3)
	require.Len(t, second, 3)
	for _, tag := range append(first, second...) {
		require.Empty(t, d.lease.Answered(nil, tag, &wire.Reply{Answer: quorum.Yes, Value: d.lease.ID().Token, TTL: d.ttl}))
	}
	require.Len(t, d.lease.Changed(nil, 0), 1)
}
