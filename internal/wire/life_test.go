package wire_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

func TestMain(m *testing.M) {
	wire.Illegal = func(change string) { panic(change) }
	goleak.VerifyTestMain(m)
}

const (
	least      = 20 * time.Millisecond
	most       = time.Second
	mostCostly = 5 * time.Second
)

func newLife(t *testing.T) *pipe {
	return &pipe{t, &wire.Pipeline[string]{
		Life: wire.Life{Least: least, Most: most, MostCostly: mostCostly}, Timeout: timeout, First: 10 * timeout, MaxOverdue: maxOverdue,
	}}
}

// pause returns how long the node pauses if nobody wants it, and begins the next attempt.
func (p *pipe) pause(now *time.Time) time.Duration {
	at := p.Life.Dial(*now, false)
	took := at.Sub(*now)
	*now = at
	require.Equal(p, at, p.Life.Dial(at, false))
	return took
}

func TestLife_PausesGrowUntilAConnectionIsUseful(t *testing.T) {
	p, now := newLife(t), start
	require.Zero(t, p.pause(&now), "nothing has failed yet")
	for _, want := range []time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000} {
		p.Failed(now, errDown, true)
		require.Equal(t, want*time.Millisecond, p.pause(&now))
	}
	for _, want := range []time.Duration{2000, 4000, 5000, 5000} {
		p.Failed(now, errDown, false)
		require.Equal(t, want*time.Millisecond, p.pause(&now), "a costly attempt")
	}
	p.Failed(now, errDown, true)
	require.Equal(t, most, p.pause(&now))
	p.Greeted(now)
	p.Broken(now, nil, wire.Unused, true)
	require.Equal(t, most, p.pause(&now), "it was of no use")
	p.Greeted(now)
	p.Broken(now, nodeerr.ErrProtocol, wire.Granted, true)
	require.Equal(t, most, p.pause(&now), "it has answered nonsense")
	p.Greeted(now)
	p.Broken(now, nil, wire.Served, true)
	require.Zero(t, p.pause(&now), "it has served")
	p.Failed(now, errDown, true)
	require.Equal(t, least, p.pause(&now))
	p.Greeted(now)
	now = now.Add(most)
	p.Broken(now, nil, wire.Unused, true)
	require.Zero(t, p.pause(&now), "it has lasted")
}

func TestLife_ACommandEndsAPauseAfterAnAttemptThatCostLittle(t *testing.T) {
	for name, tt := range map[string]struct {
		outage, after time.Duration
		cheap, ends   bool
	}{
		"at once":                       {0, 0, true, false},
		"after 49 ms":                   {0, 49 * time.Millisecond, true, false},
		"after 50 ms":                   {0, 50 * time.Millisecond, true, true},
		"of a costly attempt":           {0, time.Second, false, false},
		"after 249 ms in a long one":    {10 * time.Second, 249 * time.Millisecond, true, false},
		"after 250 ms in a long one":    {10 * time.Second, 250 * time.Millisecond, true, true},
		"of a costly one in a long one": {10 * time.Second, time.Second, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, now := newLife(t), start
			for first := true; first || now.Sub(start) < tt.outage; first = false {
				p.pause(&now)
				for range 8 { // so that the pause is long
					p.Failed(now, errDown, tt.cheap)
					p.pause(&now)
				}
			}
			p.Failed(now, errDown, tt.cheap)
			now = now.Add(tt.after)
			if !tt.ends {
				p.refuses(now, "acquire", errDown)
				require.Equal(t, wire.Pausing, p.Life.State())
				return
			}
			wake, _, err := p.Send(now, op("acquire"))
			require.NoError(t, err)
			require.True(t, wake)
			require.Equal(t, now, p.Life.Dial(now, false))
			p.send(now, "acquire") // shares the attempt
			p.Greeted(now)
			require.Equal(t, []string{"acquire", "acquire"}, p.written(now))
		})
	}
}

func TestLife_WhoWaitedForAnAttemptInVainIsTheLast(t *testing.T) {
	p, now := newLife(t), start
	p.pause(&now)
	p.Failed(now, errDown, true)
	p.pause(&now)
	p.send(now, "acquire", "extend")
	now = now.Add(timeout)
	p.Expire(now)
	p.ended(quorum.Unsent, nodeerr.ErrTimeout, "acquire", "extend")
	p.refuses(now, "acquire", nodeerr.ErrTimeout)
	p.Failed(now, errDown, true)
	p.pause(&now)
	p.send(now, "the next attempt")
}

func TestLife_ANodeThatSomebodyListensToIsDialledEachFiftyMillisecondsForThreeSeconds(t *testing.T) {
	p, now := newLife(t), start
	p.pause(&now)
	p.Greeted(now)
	p.Broken(now, nil, wire.Served, true)
	down, dials := now, 0
	for ; now.Sub(down) < 4*time.Second; dials++ {
		for at := p.Life.Dial(now, true); now.Before(at); at = p.Life.Dial(now, true) {
			now = at
		}
		p.Failed(now, errDown, true)
	}
	require.InDelta(t, 3*time.Second/(50*time.Millisecond), dials, 5)
	require.Equal(t, most, p.Life.Dial(now, true).Sub(now))
}

func TestLife_TheFirstAttemptIsWaitedForLonger(t *testing.T) {
	p, now := newLife(t), start
	p.send(now, "a")
	p.pause(&now)
	now = now.Add(9 * timeout)
	_, next := p.Expire(now)
	require.Empty(t, p.Notices())
	require.Equal(t, start.Add(10*timeout), next)
	p.Greeted(now)
	require.Equal(t, []string{"a"}, p.written(now))
	_, next = p.Expire(now)
	require.Equal(t, now.Add(timeout), next, "its own timeout begins when there is a connection")
	p.Answered()
	p.Broken(now, nil, wire.Served, true)
	p.send(now, "b")
	_, next = p.Expire(now)
	require.Equal(t, now.Add(timeout), next, "it is not the first")
}

var errReplica = wire.NewServerError("READONLY You can't write against a read only replica.")

func TestLife_AServerThatIsTheWrongOneIsLeft(t *testing.T) {
	p, now := newLife(t), start
	p.pause(&now)
	p.Greeted(now)
	p.send(now, "acquire", "release 1", "release 2", "observe")
	require.Len(t, p.written(now), 4)
	p.Answered()
	p.Life.Wrong(errReplica)
	p.send(now, "release 3", "acquire 3")
	require.Empty(t, p.written(now), "nothing more is written")
	require.False(t, p.Left(), "answers are missing")
	for range 2 { // the releases, which are not done
		op, _ := p.Answered()
		p.Undone(now, op)
	}
	require.False(t, p.Left())
	p.Answered()
	require.True(t, p.Left())
	_, next := p.Expire(now)
	require.Equal(t, now.Add(timeout), next)
	require.False(t, p.Broken(now, nil, wire.Granted, true))
	require.Zero(t, p.pause(&now), "it has granted something before")
	p.Greeted(now)
	require.Equal(t, []string{"release 1", "release 2", "release 3", "acquire 3"}, p.written(now))
}

func TestLife_WhatWaitsWhileTheWrongServerIsLeftEndsInTimeWithTheReason(t *testing.T) {
	p, now := newLife(t), start
	p.pause(&now)
	p.Greeted(now)
	p.send(now, "observe")
	p.written(now)
	p.Life.Wrong(errReplica)
	p.send(now.Add(1), "acquire")
	p.Expire(now.Add(timeout))
	p.ended(quorum.Unknown, errReplica, "observe")
	p.Expire(now.Add(timeout + 1))
	p.ended(quorum.Unsent, errReplica, "acquire")
}

func TestLife_AServerThatIsWrongFromTheStartCountsAsOneThatRefuses(t *testing.T) {
	p, now := newLife(t), start
	for _, want := range []time.Duration{20, 40, 80} {
		p.pause(&now)
		p.Greeted(now)
		p.send(now, "acquire")
		p.written(now)
		p.Answered()
		p.Life.Wrong(errReplica)
		require.True(t, p.Left())
		p.Broken(now, nil, wire.Served, true)
		p.refuses(now, "acquire", errReplica)
		at := p.Life.Dial(now, false)
		require.Equal(t, want*time.Millisecond, at.Sub(now))
		now = at
	}
}

func TestLife_AConnectionIsLookedAtFromHalfToAWholeIntervalAfterItIsReadyAndAfterEachLook(t *testing.T) {
	p, now := newLife(t), start
	p.Life.LookEvery = time.Minute
	at := func(now time.Time) time.Time {
		due, next := p.Life.Look(now)
		require.False(t, due)
		return next
	}
	p.pause(&now)
	require.Zero(t, at(now), "there is no connection")
	p.Greeted(now)
	require.Equal(t, now.Add(time.Minute), at(now))
	require.Equal(t, now.Add(time.Minute), at(now.Add(time.Minute-1)))
	p.Life.Random = func(below time.Duration) time.Duration { return below - 1 }
	for range 2 {
		now = at(now)
		due, next := p.Life.Look(now)
		require.True(t, due)
		require.Equal(t, now.Add(30*time.Second+1), next)
	}
	p.Life.Wrong(errReplica)
	require.Zero(t, at(now.Add(time.Hour)), "it ends anyway")
	p.Broken(now, nil, wire.Served, true)
	p.Life.LookEvery = 0
	p.pause(&now)
	p.Greeted(now)
	require.Zero(t, at(now.Add(time.Hour)))
}

func TestLife_AConnectionEndsIfAnotherLeadsToAnotherServer(t *testing.T) {
	connected := wire.Identity{Process: "p", History: "h"}
	for name, tt := range map[string]struct {
		found wire.Identity
		ends  bool
	}{
		"the same":                          {connected, false},
		"another":                           {wire.Identity{Process: "q", History: "i"}, true},
		"its replica, which was promoted":   {wire.Identity{Process: "q", History: "i", Before: "h"}, true},
		"the same with its first replica":   {wire.Identity{Process: "p", History: "i"}, false},
		"the same, which was promoted":      {wire.Identity{Process: "p", History: "i", Before: "j"}, true},
		"the same, without its replication": {wire.Identity{Process: "p"}, false},
		"one that does not say who it is":   {wire.Identity{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, now := newLife(t), start
			p.pause(&now)
			p.Greeted(now)
			p.send(now, "acquire")
			p.written(now)
			p.Life.Found(connected, tt.found)
			require.Equal(t, tt.ends, p.Life.State() == wire.Leaving)
			p.Answered()
			if require.Equal(t, tt.ends, p.Left()); tt.ends {
				require.Equal(t, wire.Passes, wire.OutlookOf(p.Life.Reason()))
				p.Broken(now, nil, wire.Unused, true)
				require.Zero(t, p.pause(&now), "the other one is there")
			}
		})
	}
	p, now := newLife(t), start
	p.pause(&now)
	p.Greeted(now)
	p.Life.Found(wire.Identity{}, connected)
	require.Equal(t, wire.Serving, p.Life.State(), "nobody knows which server is connected")
}

// A walk takes every step that the state permits, at random. The hook of TestMain ends it at a change that the table does not have.
func TestLife_RandomWalks(t *testing.T) {
	reached := map[string]int{}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		p, now, before := newLife(t), start, wire.Idle
		p.Life.Random = func(below time.Duration) time.Duration { return time.Duration(r.Int64N(int64(below))) }
		for range 200 {
			now = now.Add(time.Duration(r.Int64N(int64(timeout))))
			switch s := p.Life.State(); {
			case r.IntN(3) == 0:
				if _, _, err := p.Send(now, op(fmt.Sprint([...]string{"acquire", "release", "observe"}[r.IntN(3)], r.IntN(1000)))); err != nil {
					require.True(t, p.Life.State() != wire.Leaving || errors.Is(err, nodeerr.ErrSuspended), "what comes while the node leaves is queued")
				}
			case r.IntN(4) == 0:
				p.Expire(now)
			case s == wire.Idle, s == wire.Pausing:
				p.Life.Dial(now, r.IntN(2) == 0)
			case s == wire.Dialing && r.IntN(2) == 0:
				p.Failed(now, errDown, r.IntN(2) == 0)
			case s == wire.Dialing:
				p.Greeted(now)
			case r.IntN(6) == 0 || p.Left():
				p.Broken(now, nil, wire.Use(r.IntN(3)), true)
			case r.IntN(6) == 0:
				p.Life.Wrong(errReplica)
			case p.Next() != nil && r.IntN(2) == 0:
				p.Answered()
			default:
				taken := p.Take(now, 3)
				require.True(t, len(taken) == 0 || s == wire.Serving, "nothing is written while the node is %v", s)
			}
			state := p.Life.State()
			if refusal := p.Life.Refusal(); refusal != nil {
				require.True(t, state == wire.Pausing || state == wire.Dialing, "the node is %v", state)
				require.True(t, errors.Is(refusal, errDown) || errors.Is(refusal, errReplica) || errors.Is(refusal, nodeerr.ErrBroken) || errors.Is(refusal, nodeerr.ErrTimeout))
			}
			if state != before {
				reached[fmt.Sprintf("%v to %v", before, state)]++
				before = state
			}
			p.Notices()
		}
	}
	for _, change := range []string{
		"idle to dialing", "dialing to serving", "dialing to pausing", "serving to leaving", "serving to dialing", "serving to pausing",
		"leaving to dialing", "leaving to pausing", "pausing to dialing",
	} {
		require.NotZero(t, reached[change], change)
	}
	require.Len(t, reached, 9)
}
