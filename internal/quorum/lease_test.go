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
		"at the start":          {start, quorum.NotEnded, 9898 * time.Millisecond},
		"at the last instant":   {inTime, quorum.NotEnded, 1},
		"at the deadline":       {deadline, quorum.Expired, 0},
		"while nodes keep it":   {start.Add(granted.TTL - 1), quorum.Expired, 0},
		"long after":            {deadline.Add(time.Hour), quorum.Expired, 0},
		"before it was granted": {start.Add(-time.Second), quorum.NotEnded, 10898 * time.Millisecond},
	} {
		lease := quorum.NewLease(1, granted)
		require.Equal(t, tt.remaining, lease.Remaining(tt.now), name)
		require.Equal(t, tt.ending, lease.At(tt.now), name)
		require.Equal(t, deadline, lease.Deadline(), name)
		require.Equal(t, start.Add(10*time.Second), lease.Kept(), name)
	}
}

func TestLease_EndsOnceAndAsItFirstDid(t *testing.T) {
	for name, tt := range map[string]struct {
		now  time.Time
		how  quorum.Ending
		want quorum.Ending
	}{
		"given back":                 {start, quorum.Released, quorum.Released},
		"gone":                       {start, quorum.Gone, quorum.Gone},
		"given back in time":         {inTime, quorum.Released, quorum.Released},
		"given back too late":        {deadline, quorum.Released, quorum.Expired},
		"found gone too late":        {deadline, quorum.Gone, quorum.Expired},
		"expired before its time":    {start, quorum.Expired, quorum.Expired},
		"no ending is not an end":    {inTime, quorum.NotEnded, quorum.NotEnded},
		"nor does it undo an expiry": {deadline, quorum.NotEnded, quorum.Expired},
	} {
		lease := quorum.NewLease(1, granted)
		require.Equal(t, tt.want, lease.End(tt.now, tt.how), name)
		if tt.want == quorum.NotEnded {
			continue
		}
		for _, other := range []quorum.Ending{quorum.NotEnded, quorum.Released, quorum.Gone, quorum.Expired} {
			require.Equal(t, tt.want, lease.End(start, other), name)
		}
		require.Equal(t, tt.want, lease.At(deadline), name)
		extend(lease, longer)
		require.Equal(t, tt.want, lease.At(start), "%s: an extension brings no lease back", name)
		require.Zero(t, lease.Remaining(start), name)
	}
}

func TestLease_IsNeverShortened(t *testing.T) {
	later := start.Add(5 * time.Second)
	for name, tt := range map[string]struct {
		start time.Time
		ttl   time.Duration
		want  time.Time
	}{
		"by the same TTL later":         {later, 10 * time.Second, later.Add(9898 * time.Millisecond)},
		"by a longer TTL at once":       {start, 20 * time.Second, start.Add(19798 * time.Millisecond)},
		"by a shorter TTL that is over": {later, time.Second, deadline},
		"by the same grant":             {start, 10 * time.Second, deadline},
		"by an older grant":             {start.Add(-1), 10 * time.Second, deadline},
		"by no TTL at all":              {later, 0, deadline},
		"by one that ends just later":   {start.Add(1), 10 * time.Second, deadline.Add(1)},
		"by a shorter TTL much later":   {inTime, time.Second, deadline.Add(988*time.Millisecond - 1)},
	} {
		lease := quorum.NewLease(1, granted)
		extend(lease, of(tt.start, tt.ttl))
		require.Equal(t, tt.want, lease.Deadline(), name)
		require.Equal(t, tt.want.Sub(start), lease.Remaining(start), name)
		require.False(t, lease.Kept().Before(lease.Deadline()), "%s: a majority keeps the key until the deadline", name)
		require.Equal(t, quorum.NotEnded, lease.At(tt.want.Add(-1)), name)
		require.Equal(t, quorum.Expired, lease.At(tt.want), name)
	}
}

// of is a grant with the usual drift.
func of(start time.Time, ttl time.Duration) quorum.Grant {
	return quorum.Grant{Start: start, TTL: ttl, Drift: granted.Drift}
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
	lease := quorum.NewLease(1, granted)
	require.Equal(t, 10*time.Second, lease.Longest())
	for _, tt := range []struct{ ttl, longest time.Duration }{
		{time.Second, 10 * time.Second}, {time.Minute, time.Minute}, {30 * time.Second, time.Minute},
	} {
		try(lease, of(start, tt.ttl))
		require.Equal(t, tt.longest, lease.Longest())
	}
	extend(lease, longer)
	require.Equal(t, time.Minute, lease.Longest(), "an extension that is confirmed shortens no other")
	require.Equal(t, longer.Deadline(), lease.Deadline(), "and what was only tried is no deadline")
}

// What a failed extension made longer is cleaned up when the lease is over.
func TestLease_HasLeftoversOnlyIfKeysMayOutliveIt(t *testing.T) {
	nothing := func(*quorum.Lease, quorum.Grant) {}
	for name, tt := range map[string]struct {
		before func(*quorum.Lease, quorum.Grant)
		how    quorum.Ending
		want   bool
	}{
		"held":                             {nothing, quorum.NotEnded, false},
		"released, as its release does it": {try, quorum.Released, false},
		"expired":                          {nothing, quorum.Expired, false},
		"expired after a failed extension": {try, quorum.Expired, true},
		"expired after an extension":       {extend, quorum.Expired, false},
		"gone from the nodes":              {nothing, quorum.Gone, true},
	} {
		lease := quorum.NewLease(1, granted)
		tt.before(lease, longer)
		require.False(t, lease.Leftovers(start), "%s: while it is held", name)
		lease.End(start, tt.how)
		require.Equal(t, tt.want, lease.Leftovers(lease.Deadline()), name)
		require.False(t, lease.Leftovers(lease.Deadline()), "%s: once", name)
	}
}

// withGrace is granted with a grace of 3 s.
var withGrace = quorum.Grant{Start: granted.Start, TTL: granted.TTL, Drift: granted.Drift, Grace: 3 * time.Second}

func TestLease_WithAGraceEndsThatLongBeforeAnotherCanHaveTheLock(t *testing.T) {
	end, over := deadline.Add(-3*time.Second), deadline
	lease := quorum.NewLease(1, withGrace)
	require.Equal(t, end, lease.Deadline())
	require.Equal(t, over, lease.ExclusiveUntil())
	for _, tt := range []struct {
		now                time.Time
		ending             quorum.Ending
		exclusive, inGrace bool
	}{
		{end.Add(-1), quorum.NotEnded, true, false},
		{end, quorum.Expired, true, true},
		{over.Add(-1), quorum.Expired, true, true},
		{over, quorum.Expired, false, false},
	} {
		require.Equal(t, tt.ending, lease.At(tt.now), tt.now)
		require.Equal(t, tt.exclusive, lease.Exclusive(tt.now), tt.now)
		require.Equal(t, tt.inGrace, lease.InGrace(tt.now), tt.now)
	}
	for _, how := range []quorum.Ending{quorum.Gone, quorum.Released} {
		lease := quorum.NewLease(1, withGrace)
		lease.End(end.Add(-1), how)
		require.False(t, lease.Exclusive(end), how)
		require.False(t, lease.InGrace(end), how)
	}
}

func TestLease_AnExtensionKeepsTheGrace(t *testing.T) {
	lease := quorum.NewLease(1, withGrace)
	extend(lease, lease.Ask(midway, time.Minute))
	end := midway.Add(time.Minute - 602*time.Millisecond - 3*time.Second)
	require.Equal(t, end, lease.Deadline())
	e := new(quorum.Extend).Begin(lease, lease.Ask(end.Add(-1), time.Hour))
	require.Equal(t, quorum.TooLate, e.Vote(instant(end), 0, quorum.Yes, "").Outcome, "not in the grace")
}

// What a failed extension made longer stays for the grace: the holder has not stopped yet.
func TestLease_HasNoLeftoversBeforeTheGraceIsOver(t *testing.T) {
	lease := quorum.NewLease(1, withGrace)
	try(lease, lease.Ask(start, time.Minute))
	require.False(t, lease.Leftovers(inTime))
	require.True(t, lease.Leftovers(deadline))

	lost := quorum.NewLease(1, withGrace)
	lost.End(start, quorum.Gone)
	require.True(t, lost.Leftovers(start), "a loss has no grace")
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
	require.Equal(t, quorum.NotEnded, second.At(inTime))
	require.Equal(t, quorum.Released, third.At(inTime))
	require.Equal(t, 1, lease.Holds())
	require.True(t, second.Leave(inTime))
	require.Zero(t, lease.Holds())
}

func TestLease_IsNotEnteredIfItIsOver(t *testing.T) {
	for ending, now := range map[quorum.Ending]time.Time{quorum.NotEnded: deadline, quorum.Released: start} {
		lease := quorum.NewLease(1, granted)
		lease.End(start, ending)
		_, ok := lease.Enter(now)
		require.False(t, ok)
		require.Equal(t, 1, lease.Holds())
	}
}
