package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

func TestLease_IsHeldUntilItsDeadlineAndNoLonger(t *testing.T) {
	for name, tt := range map[string]struct {
		now       time.Time
		ending    quorum.Ending
		remaining time.Duration
	}{
		"at the start":          {start, quorum.Held, 9898 * time.Millisecond},
		"in the middle":         {start.Add(4 * time.Second), quorum.Held, 5898 * time.Millisecond},
		"at the last instant":   {inTime, quorum.Held, 1},
		"at the deadline":       {deadline, quorum.Expired, 0},
		"an instant later":      {deadline.Add(1), quorum.Expired, 0},
		"while nodes keep it":   {start.Add(granted.TTL - 1), quorum.Expired, 0},
		"long after":            {deadline.Add(time.Hour), quorum.Expired, 0},
		"before it was granted": {start.Add(-time.Second), quorum.Held, 10898 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(1, granted)
			require.Equal(t, tt.remaining, lease.Remaining(tt.now))
			require.Equal(t, tt.ending, lease.At(tt.now))
			require.Equal(t, deadline, lease.Deadline())
			require.Equal(t, start.Add(10*time.Second), lease.Kept())
		})
	}
}

func TestLease_EndsOnceAndAsItFirstDid(t *testing.T) {
	for name, tt := range map[string]struct {
		now  time.Time
		how  quorum.Ending
		want quorum.Ending
	}{
		"given back":                 {start, quorum.Released, quorum.Released},
		"gone":                       {start, quorum.Lost, quorum.Lost},
		"given back in time":         {inTime, quorum.Released, quorum.Released},
		"given back too late":        {deadline, quorum.Released, quorum.Expired},
		"found gone too late":        {deadline, quorum.Lost, quorum.Expired},
		"expired before its time":    {start, quorum.Expired, quorum.Expired},
		"no ending is not an end":    {inTime, quorum.Held, quorum.Held},
		"nor does it undo an expiry": {deadline, quorum.Held, quorum.Expired},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(1, granted)
			require.Equal(t, tt.want, lease.End(tt.now, tt.how))
			if tt.want == quorum.Held {
				return
			}
			for _, other := range []quorum.Ending{quorum.Held, quorum.Released, quorum.Lost, quorum.Expired} {
				require.Equal(t, tt.want, lease.End(start, other))
			}
			require.Zero(t, lease.Remaining(start))
			require.Equal(t, tt.want, lease.At(deadline))

			extend(lease, longer)
			require.Equal(t, tt.want, lease.At(start), "an extension brings no lease back")
			require.Zero(t, lease.Remaining(start))
		})
	}
}

func TestLease_IsNeverShortened(t *testing.T) {
	grant := func(start time.Time, ttl time.Duration) quorum.Grant {
		return quorum.Grant{Start: start, TTL: ttl, Drift: granted.Drift}
	}
	later := start.Add(5 * time.Second)
	for name, tt := range map[string]struct {
		grant quorum.Grant
		want  time.Time
	}{
		"by the same TTL later":         {grant(later, 10*time.Second), later.Add(9898 * time.Millisecond)},
		"by a longer TTL at once":       {grant(start, 20*time.Second), start.Add(19798 * time.Millisecond)},
		"by a shorter TTL that is over": {grant(later, time.Second), deadline},
		"by the same grant":             {granted, deadline},
		"by an older grant":             {grant(start.Add(-1), 10*time.Second), deadline},
		"by no TTL at all":              {grant(later, 0), deadline},
		"by one that ends just later":   {grant(start.Add(1), 10*time.Second), deadline.Add(1)},
		"by a shorter TTL much later":   {grant(deadline.Add(-1), time.Second), deadline.Add(988*time.Millisecond - 1)},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(1, granted)
			extend(lease, tt.grant)
			require.Equal(t, tt.want, lease.Deadline())
			require.Equal(t, tt.want.Sub(start), lease.Remaining(start))
			require.Equal(t, quorum.Held, lease.At(tt.want.Add(-1)))
			require.False(t, lease.Kept().Before(lease.Deadline()), "a majority keeps the key until the deadline")
			require.Equal(t, quorum.Expired, lease.At(tt.want))
		})
	}
}

// extend has the one node of a lease confirm a grant at once.
func extend(lease *quorum.Lease, grant quorum.Grant) {
	new(quorum.Extend).Begin(lease, grant).Vote(instant(grant.Start), 0, quorum.Yes, "")
}

// try has the one node of a lease leave a grant without an answer.
func try(lease *quorum.Lease, grant quorum.Grant) {
	new(quorum.Extend).Begin(lease, grant).Vote(instant(grant.Start), 0, quorum.Unknown, "")
}

// Whoever cleans up has to reckon with the longest TTL that was ever sent.
func TestLease_RemembersTheLongestTTLThatWasTried(t *testing.T) {
	of := func(ttl time.Duration) quorum.Grant {
		return quorum.Grant{Start: start, TTL: ttl, Drift: granted.Drift}
	}
	lease := quorum.NewLease(1, granted)
	require.Equal(t, 10*time.Second, lease.Longest())
	try(lease, of(time.Second))
	require.Equal(t, 10*time.Second, lease.Longest())
	try(lease, of(time.Minute))
	require.Equal(t, time.Minute, lease.Longest())
	try(lease, of(30*time.Second))
	require.Equal(t, time.Minute, lease.Longest())
	extend(lease, longer)
	require.Equal(t, time.Minute, lease.Longest(), "an extension that is confirmed shortens no other")
	require.Equal(t, longer.Deadline(), lease.Deadline(), "and what was only tried is no deadline")
}

// What a failed extension made longer is cleaned up when the lease is over.
func TestLease_HasLeftoversOnlyIfKeysMayOutliveIt(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(*quorum.Lease)
		how    quorum.Ending
		want   bool
	}{
		"held":                             {how: quorum.Held},
		"released, as its release does it": {before: func(l *quorum.Lease) { try(l, longer) }, how: quorum.Released},
		"expired":                          {how: quorum.Expired},
		"expired after a failed extension": {before: func(l *quorum.Lease) { try(l, longer) }, how: quorum.Expired, want: true},
		"expired after an extension":       {before: func(l *quorum.Lease) { extend(l, longer) }, how: quorum.Expired},
		"gone from the nodes":              {how: quorum.Lost, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(1, granted)
			if tt.before != nil {
				tt.before(lease)
			}
			require.False(t, lease.Leftovers(start), "while it is held")
			lease.End(start, tt.how)
			require.Equal(t, tt.want, lease.Leftovers(lease.Deadline()))
			require.False(t, lease.Leftovers(lease.Deadline()), "once")
		})
	}
}

// withGrace is granted with a grace of 3 s.
func withGrace() quorum.Grant {
	g := granted
	g.Grace = 3 * time.Second
	return g
}

func TestLease_WithAGraceEndsThatLongBeforeAnotherCanHaveTheLock(t *testing.T) {
	grant := withGrace()
	lease := quorum.NewLease(1, grant)
	end, over := granted.Deadline().Add(-3*time.Second), granted.Deadline()
	require.Equal(t, end, lease.Deadline())
	require.Equal(t, time.Nanosecond, lease.Remaining(end.Add(-1)))
	require.Equal(t, quorum.Held, lease.At(end.Add(-1)))
	require.True(t, lease.Exclusive(end.Add(-1)))
	require.Equal(t, quorum.Expired, lease.At(end))
	require.True(t, lease.Exclusive(over.Add(-1)))
	require.True(t, lease.InGrace(over.Add(-1)))
	require.False(t, lease.Exclusive(over))

	for how, exclusive := range map[quorum.Ending]bool{quorum.Lost: false, quorum.Released: false} {
		lease := quorum.NewLease(1, grant)
		lease.End(end.Add(-1), how)
		require.Equal(t, exclusive, lease.Exclusive(end))
		require.False(t, lease.InGrace(end))
	}
}

func TestLease_AnExtensionKeepsTheGrace(t *testing.T) {
	lease := quorum.NewLease(1, withGrace())
	extend(lease, lease.Ask(midway, time.Minute))
	require.Equal(t, midway.Add(time.Minute-602*time.Millisecond-3*time.Second), lease.Deadline())

	end := lease.Deadline()
	e := new(quorum.Extend).Begin(lease, lease.Ask(end.Add(-1), time.Hour))
	require.Equal(t, quorum.TooLate, e.Vote(instant(end), 0, quorum.Yes, "").Outcome, "not in the grace")
}

// What a failed extension made longer stays for the grace: the holder has not stopped yet.
func TestLease_HasNoLeftoversBeforeTheGraceIsOver(t *testing.T) {
	lease := quorum.NewLease(1, withGrace())
	try(lease, lease.Ask(start, time.Minute))
	end, over := lease.Deadline(), granted.Deadline()
	require.Equal(t, quorum.Expired, lease.At(end))
	require.Equal(t, over, lease.ExclusiveUntil())
	require.False(t, lease.Leftovers(over.Add(-1)))
	require.True(t, lease.Leftovers(over))

	lost := quorum.NewLease(1, withGrace())
	lost.End(start, quorum.Lost)
	require.True(t, lost.Leftovers(start), "a loss has no grace")
}

func TestLease_WithAGraceIsRenewedWhenAThirdOfItsTTLHasGoneBy(t *testing.T) {
	plain, grace := quorum.NewLease(1, granted), quorum.NewLease(1, withGrace())
	due := func(l *quorum.Lease) time.Time {
		r := quorum.NewRenewal(l, start, granted.TTL, 0, true)
		at, ok := r.Next(start)
		require.True(t, ok)
		return at
	}
	require.Equal(t, due(plain), due(grace))
}

func TestLease_IsReleasedByTheLastOfItsHolds(t *testing.T) {
	lease := quorum.NewLease(1, granted)
	first := lease.Hold()
	require.Equal(t, 1, lease.Holds())
	second, ok := lease.Enter(start)
	require.True(t, ok)
	third, ok := lease.Enter(inTime)
	require.True(t, ok)
	require.Equal(t, 3, lease.Holds())
	require.False(t, first.Leave(inTime))
	require.True(t, first.Ended())
	require.False(t, third.Leave(inTime))
	require.Equal(t, quorum.Held, second.At(inTime))
	require.Equal(t, quorum.Released, third.At(inTime))
	require.Equal(t, 1, lease.Holds())
	require.True(t, second.Leave(inTime))
	require.Zero(t, lease.Holds())
}

func TestLease_IsNotEnteredIfItIsOver(t *testing.T) {
	for name, enter := range map[string]func(*quorum.Lease) (quorum.Hold, bool){
		"past its deadline": func(l *quorum.Lease) (quorum.Hold, bool) { return l.Enter(deadline) },
		"released": func(l *quorum.Lease) (quorum.Hold, bool) {
			l.End(start, quorum.Released)
			return l.Enter(start)
		},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(1, granted)
			_, ok := enter(lease)
			require.False(t, ok)
			require.Equal(t, 1, lease.Holds())
		})
	}
}
