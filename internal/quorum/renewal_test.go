package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// renewer renews a lease over one node when it is due, with the answers that it is given.
type renewer struct {
	t       *testing.T
	lease   *quorum.Lease
	renewal *quorum.Renewal
	asked   []quorum.Grant
}

func newRenewer(t *testing.T, maxHold time.Duration) *renewer {
	lease := quorum.NewLease(1, granted)
	return &renewer{t: t, lease: lease, renewal: quorum.NewRenewal(lease, lease.Start(), granted.TTL, maxHold, false)}
}

// next goes to when the renewal is due and has the node answer it; false: it is never due again.
func (k *renewer) next(vote quorum.Answer) (now time.Time, ok bool) {
	now, ok = k.renewal.Next(k.lease, k.asOf())
	if !ok {
		return now, false
	}
	grant, ok := k.renewal.Grant(k.lease, now)
	if !ok {
		return k.next(vote)
	}
	k.asked = append(k.asked, grant)
	e := new(quorum.Extend).Begin(k.lease, grant)
	actions := e.Vote(instant(now), 0, vote, "")
	k.renewal.Ended(k.lease, now, actions.Outcome)
	return now, true
}

// asOf is when the lease was asked for last.
func (k *renewer) asOf() time.Time {
	if len(k.asked) == 0 {
		return start
	}
	return k.asked[len(k.asked)-1].Start
}

func (k *renewer) requireDue(after time.Duration) {
	k.t.Helper()
	due, ok := k.renewal.Next(k.lease, k.asOf())
	require.True(k.t, ok)
	require.WithinDuration(k.t, start.Add(after), due, 2)
}

func TestRenewal_IsDueEachTimeThatAThirdOfTheTTLHasGoneBy(t *testing.T) {
	k := newRenewer(t, 0)
	for i := range 100 {
		if i == 0 { // so that the key is tracked early
			k.requireDue(100 * time.Millisecond)
		} else {
			k.requireDue(k.asOf().Sub(start) + granted.TTL/3)
		}
		_, ok := k.next(quorum.Yes)
		require.True(t, ok)
	}
	for _, grant := range k.asked {
		require.Equal(t, granted.TTL, grant.TTL)
		require.Equal(t, granted.Drift, grant.Drift)
	}
}

func TestRenewal_IsDueWhenAThirdOfTheTTLHasGoneBy(t *testing.T) {
	for _, tt := range []struct {
		grant quorum.Grant
		after time.Duration
	}{
		{granted, granted.TTL / 3},
		{withGrace, granted.TTL / 3},
		{of(start, 240*time.Millisecond), 80 * time.Millisecond}, // of what is left, if that is less
	} {
		lease := quorum.NewLease(1, tt.grant)
		r := quorum.NewRenewal(lease, start, granted.TTL, 0, false)
		first, ok := r.Next(lease, start)
		require.True(t, ok)
		require.WithinDuration(t, start.Add(min(tt.after, 100*time.Millisecond)), first, 2, "%+v: so that the key is tracked early", tt.grant)
		due, _ := quorum.NewRenewal(lease, start, granted.TTL, 0, true).Next(lease, start)
		require.WithinDuration(t, start.Add(tt.after), due, 2, "%+v", tt.grant)
	}
}

// A watchdog that dies on one transient error loses the lock.
func TestRenewal_IsTriedAgainEverSoonerAfterFailures(t *testing.T) {
	k := newRenewer(t, 0)
	now, ok := k.next(quorum.Unknown)
	for pause := time.Hour; ok && now.Before(deadline.Add(-time.Millisecond)); {
		left := k.lease.Remaining(now)
		var again time.Time
		again, ok = k.next(quorum.Unknown)
		require.True(t, ok)
		require.Equal(t, now.Add(max(left/8, time.Millisecond)), again)
		require.LessOrEqual(t, again.Sub(now), pause)
		pause, now = again.Sub(now), again
	}
	require.Greater(t, len(k.asked), 30)
	require.Less(t, len(k.asked), 100, "the last of them are a millisecond apart")
	_, ok = k.renewal.Next(k.lease, deadline)
	require.False(t, ok, "the lease is over")
}

// A watchdog that goes on after a loss would create the key anew.
func TestRenewal_EndsWithTheLease(t *testing.T) {
	for _, how := range []quorum.Ending{quorum.Released, quorum.Gone, quorum.Expired} {
		k := newRenewer(t, 0)
		k.lease.End(start, how)
		_, ok := k.next(quorum.Yes)
		require.False(t, ok, how)
	}
	k := newRenewer(t, 0)
	_, ok := k.next(quorum.No)
	require.True(t, ok)
	_, ok = k.next(quorum.Yes)
	require.False(t, ok, "gone from the nodes, as the renewal has found")
}

// renewWith has each node answer a renewal at an instant.
func renewWith(t *testing.T, lease *quorum.Lease, renewal *quorum.Renewal, at time.Time, answers ...quorum.Answer) quorum.Grant {
	grant, ok := renewal.Grant(lease, at)
	require.True(t, ok)
	renewal.Ended(lease, at, voteAll(new(quorum.Extend).Begin(lease, grant), at, answers...))
	return grant
}

// The danger: a node that has restarted does not count yet when the next one hangs.
func TestRenewal_IsDueSoonIfANodeHoldsTheKeyThatDoesNotCountYet(t *testing.T) {
	soon, third, first := 100*time.Millisecond, (granted.TTL / 3).Round(time.Microsecond), start.Add(time.Second)
	var lease *quorum.Lease
	var r *quorum.Renewal
	due := func(now time.Time) time.Duration {
		due, ok := r.Next(lease, now)
		require.True(t, ok)
		return due.Sub(now).Round(time.Microsecond)
	}
	for name, check := range map[string]func(t *testing.T){
		"once for each that is due anyway, if it loses the key all the time": func(t *testing.T) {
			at := first
			for range 3 {
				renewWith(t, lease, r, at, quorum.Yes, quorum.Yes, quorum.Recreated)
				require.Equal(t, soon, due(at))
				require.False(t, r.Sooner(lease, at.Add(time.Millisecond)), "it does not get later with each answer")
				at = at.Add(soon)
				renewWith(t, lease, r, at, quorum.Yes, quorum.Yes, quorum.Recreated)
				require.Equal(t, third, due(at))
				require.False(t, r.Sooner(lease, at))
				at = at.Add(third)
			}
			renewWith(t, lease, r, at, quorum.Yes, quorum.Yes, quorum.Yes)
			require.Equal(t, third, due(at), "it counts")
		},
		"also if it answers after the outcome": func(t *testing.T) {
			renewWith(t, lease, r, first, quorum.Yes, quorum.Yes)
			require.False(t, r.Sooner(lease, first))
			new(quorum.Extend).Begin(lease, granted).Vote(instant(first), 2, quorum.Recreated, "")
			require.True(t, r.Sooner(lease, first))
			require.Equal(t, soon, due(first))
		},
		"also if the holder has extended the lock by more": func(t *testing.T) {
			renewWith(t, lease, r, first, quorum.Yes, quorum.Yes, quorum.Yes)
			voteAll(new(quorum.Extend).Begin(lease, of(first, time.Hour)), first, quorum.Yes, quorum.Yes, quorum.Recreated)
			require.True(t, r.Sooner(lease, first))
			require.Equal(t, soon, due(first))
			grant := renewWith(t, lease, r, first.Add(soon), quorum.Yes, quorum.Yes, quorum.Yes)
			require.Equal(t, time.Hour-soon, grant.TTL, "no key ends before the others")
			require.Equal(t, first.Add(time.Hour), lease.Kept())
			require.Greater(t, due(first), 59*time.Minute, "the next waits until as little is left as otherwise")
		},
		"again, if that renewal fails": func(t *testing.T) {
			renewWith(t, lease, r, first, quorum.Yes, quorum.Yes, quorum.Recreated)
			at := first.Add(soon)
			for _, want := range []time.Duration{lease.Remaining(at) / 8, soon} {
				renewWith(t, lease, r, at, quorum.Yes, quorum.Unknown, quorum.Recreated)
				require.Equal(t, want.Round(time.Microsecond), due(at))
				at = at.Add(want)
			}
		},
		"not if it is due sooner anyway": func(t *testing.T) {
			at := start.Add(9500 * time.Millisecond)
			renewWith(t, lease, r, at, quorum.Yes, quorum.Recreated, quorum.Unknown)
			require.Equal(t, lease.Remaining(at)/8, due(at))
			require.Less(t, due(at), soon)
		},
	} {
		lease = quorum.NewLease(3, granted)
		r = quorum.NewRenewal(lease, start, granted.TTL, 0, false)
		t.Run(name, check)
	}
}

// The danger: a third party cuts the TTL of the key, and the lock ends with it although the holder was told.
func TestRenewal_IsDueAtOnceIfANodeShowsThatItsKeyEndsBefore(t *testing.T) {
	k := newRenewer(t, 0)
	_, ok := k.next(quorum.Yes)
	require.True(t, ok)
	due, _ := k.renewal.Next(k.lease, k.asOf())
	now := k.asOf().Add(time.Millisecond)
	require.False(t, k.renewal.Cut(k.lease, now, due.Add(time.Second)), "it ends in good time after the renewal")
	require.True(t, k.renewal.Cut(k.lease, now, now.Add(50*time.Millisecond)))
	at, _ := k.renewal.Next(k.lease, now)
	require.Equal(t, now, at)
	require.False(t, k.renewal.Cut(k.lease, now, now.Add(time.Millisecond)), "it comes already")
	_, ok = k.next(quorum.Yes)
	require.True(t, ok)
	require.True(t, k.renewal.Cut(k.lease, now, now.Add(50*time.Millisecond)))
	again, _ := k.renewal.Next(k.lease, now)
	require.Equal(t, now.Add(100*time.Millisecond), again, "somebody does that again and again")
}

// A watchdog must not renew for ever for a stuck holder.
func TestRenewal_KeepsNoLockForLongerThanMaxHold(t *testing.T) {
	for name, tt := range map[string]struct {
		maxHold time.Duration
		asks    int
	}{
		"the TTL":                         {granted.TTL, 0},
		"less than the TTL":               {time.Second, 0},
		"a fraction more than the TTL":    {granted.TTL + 1, 0},
		"a millisecond more than that":    {granted.TTL + time.Millisecond, 1},
		"a second more":                   {granted.TTL + time.Second, 2},
		"a minute":                        {time.Minute, 16},
		"a minute and half a millisecond": {time.Minute + 500*time.Microsecond, 16},
	} {
		k := newRenewer(t, tt.maxHold)
		for more := true; more; {
			_, more = k.next(quorum.Yes)
		}
		require.Len(t, k.asked, tt.asks, name)
		for _, grant := range k.asked {
			require.False(t, grant.Start.Add(grant.TTL).After(start.Add(tt.maxHold)), name)
			require.Zero(t, grant.TTL%time.Millisecond, name)
		}
		if tt.asks > 0 {
			require.WithinDuration(t, start.Add(tt.maxHold), k.lease.Kept(), time.Millisecond, "%s: nor for less", name)
		}
	}
}

func TestRenewal_WaitsIfTheHolderHasExtendedTheLockByMore(t *testing.T) {
	k := newRenewer(t, 0)
	extend(k.lease, of(start, time.Hour))
	now, ok := k.next(quorum.Yes)
	require.True(t, ok)
	left := deadline.Sub(start.Add(granted.TTL / 3))
	require.WithinDuration(t, start.Add(time.Hour-36*time.Second-2*time.Millisecond-left), now, 2, "the drift of an hour is 36 s")
	require.Len(t, k.asked, 1)
	require.Equal(t, granted.TTL, k.asked[0].TTL)
	k.requireDue(now.Sub(start) + granted.TTL/3)
}

func TestRenewal_IsNotDueIfTheHolderHasExtendedTheLockBeyondMaxHold(t *testing.T) {
	k := newRenewer(t, time.Minute)
	extend(k.lease, of(start, time.Minute+time.Second))
	_, ok := k.next(quorum.Yes)
	require.False(t, ok)
	require.Empty(t, k.asked)
}

// The grant would end before the lease does, by less than the drift of either.
func TestRenewal_IsNotAskedForIfItMakesNothingLonger(t *testing.T) {
	lease := quorum.NewLease(1, granted)
	r := quorum.NewRenewal(lease, lease.Start(), granted.TTL, granted.TTL+100*time.Millisecond, false)
	later := 2 * granted.TTL / 3 // than now, so that less is lost to drift
	extend(lease, lease.Ask(start.Add(later), granted.TTL+98*time.Millisecond-later))
	now := start.Add(granted.TTL / 3)
	_, ok := r.Next(lease, now)
	require.True(t, ok)
	_, ok = r.Grant(lease, now)
	require.False(t, ok)
	_, ok = r.Next(lease, now)
	require.False(t, ok, "nor ever again")
}

// The danger: what a node shows while a renewal is under way, which it has answered before, is forgotten.
func TestRenewal_IsDueAtOnceIfAKeyWasCutBehindItsAnswer(t *testing.T) {
	k := newRenewer(t, 0)
	_, ok := k.next(quorum.Yes)
	require.True(t, ok)
	now := k.asOf()
	k.renewal.CutMeanwhile(now.Add(50 * time.Millisecond))
	k.renewal.CutMeanwhile(now.Add(time.Hour)) // another node
	k.renewal.Ended(k.lease, now, quorum.Done)
	due, _ := k.renewal.Next(k.lease, now)
	require.Equal(t, now, due)
	k.renewal.Ended(k.lease, now, quorum.Done)
	due, _ = k.renewal.Next(k.lease, now)
	require.Greater(t, due.Sub(now), granted.TTL/4, "and once")
}
