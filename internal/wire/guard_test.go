package wire_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

const (
	day      = 24 * time.Hour
	stampMs  = "5184000000" // 60 days
	youngMs  = "3888000000" // 45 days
	maxTTL   = 10 * time.Second
	wholeTTL = maxTTL + maxTTL/100
)

var (
	server1 = wire.Identity{Process: "p1", History: "h1"}
	server2 = wire.Identity{Process: "p2", History: "h2"}
)

// keeps is a server's answer to a stamp: what it holds then, and for how long it has held it.
func keeps(value string, age time.Duration) *wire.Reply {
	return &wire.Reply{Answer: quorum.Yes, Value: value, TTL: wire.StampTTL - age}
}

// requireQuarantine fails the test unless the server does not vote for so long.
func requireQuarantine(t *testing.T, g *wire.Guard, now time.Time, left time.Duration) {
	t.Helper()
	why := g.Quarantine(now)
	if left == 0 {
		require.Nil(t, why)
		return
	}
	require.NotNil(t, why)
	require.NoError(t, why.Err)
	require.Equal(t, left, why.Left)
}

func TestGuard_AServerVotesOnceItHasBeenTheNodeForTheLongestTTL(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, test := range []struct {
		holds  *wire.Reply
		then   []string // is sent next, if anything
		answer *wire.Reply
		left   time.Duration
	}{
		{keeps("p1:h1", 0), nil, nil, wholeTTL},
		{keeps("p1:h1", 4*time.Second), nil, nil, wholeTTL - 4*time.Second},
		{keeps("p1:h1", wholeTTL), nil, nil, 0},
		{keeps("p1:h1", 30*day), nil, nil, 0},
		{keeps("p1:h1", 31*day), []string{"p1:h1", "PX", youngMs}, keeps("p1:h1", 15*day), 0},
		{keeps("p1:h1", 60*day-time.Second), []string{"p1:h1", "PX", youngMs}, keeps("p1:h1", 15*day), 0},
		{keeps("p2:h2", time.Hour), []string{"p1:h1", "PX", stampMs}, keeps("p1:h1", 0), wholeTTL},    // it has taken a place
		{keeps("p2:h1", time.Hour), []string{"p1:h1", "PX", stampMs}, keeps("p1:h1", 0), wholeTTL},    // it was restarted
		{keeps("p1:h0", time.Hour), []string{"p1:h1", "XX", "KEEPTTL"}, keeps("p1:h1", time.Hour), 0}, // its server1 replica has come
		{keeps("p1:h0", time.Hour), []string{"p1:h1", "XX", "KEEPTTL"}, keeps("p1:h1", time.Second), wholeTTL - time.Second},
		{keeps("p1:h1", 60*day), []string{"p1:h1", "PX", stampMs}, keeps("p1:h1", 0), wholeTTL},
		{keeps("p1:h1", -time.Hour), []string{"p1:h1", "PX", stampMs}, keeps("p1:h1", 0), wholeTTL}, // no TTL of ours
		{&wire.Reply{Answer: quorum.Yes, Value: "p1:h1", TTL: wire.NoTTL}, []string{"p1:h1", "PX", stampMs}, keeps("p1:h1", 0), wholeTTL},
		{&wire.Reply{Answer: quorum.Refused, Err: nodeerr.ErrForeign}, []string{"p1:h1", "PX", stampMs}, keeps("p1:h1", 0), wholeTTL},
	} {
		g := &wire.Guard{MaxTTL: maxTTL}
		set := g.Connected(now, server1)
		require.Equal(t, []string{"p1:h1", "NX", "PX", stampMs}, set)
		next := g.Stamped(now, set, test.holds)
		require.Equal(t, test.then, next, "%+v", test.holds)
		if next != nil {
			require.Nil(t, g.Stamped(now, next, test.answer))
		}
		requireQuarantine(t, g, now, test.left)
		requireQuarantine(t, g, now.Add(test.left), 0)
	}
}

// A replica that has become a master has the stamp of the master before it, and perhaps its own from an earlier time.
func TestGuard_AServerThatGoesOnWithAnotherHistoryHasBecomeAMaster(t *testing.T) {
	g, now := &wire.Guard{MaxTTL: maxTTL}, time.Unix(1000, 0)
	set := g.Connected(now, wire.Identity{Process: "p1", History: "h3", Before: "h2"})
	require.Equal(t, []string{"p1:h3", "PX", stampMs}, g.Stamped(now, set, keeps("p1:h1", time.Hour)))
}

// The danger: a name goes from one server to another and back, and the first is taken for one that has been the node all the time.
func TestGuard_TheStampOfAServerToWhichANameComesBackIsOverwritten(t *testing.T) {
	var g *wire.Guard
	now := time.Unix(1000, 0)
	connected := func(server wire.Identity, answers ...*wire.Reply) (set []string) {
		set = g.Connected(now, server)
		for _, r := range answers {
			set = g.Stamped(now, set, r)
		}
		return set
	}
	overwrite := []string{"p1:h1", "PX", stampMs}
	for name, other := range map[string]func(){
		"stamped":      func() { connected(server2, keeps("p2:h2", 0)) },
		"not answered": func() { connected(server2) },
		"refused": func() {
			connected(server2, &wire.Reply{Answer: quorum.Refused, Err: wire.NewServerError("NOREPLICAS x")})
		},
		"without an id": func() { connected(server2); connected(wire.Identity{}) },
	} {
		t.Run(name, func(t *testing.T) {
			g = &wire.Guard{MaxTTL: maxTTL}
			connected(server1, keeps("p1:h1", time.Hour))
			requireQuarantine(t, g, now, 0)
			now = now.Add(time.Hour)
			g.Broken(now)
			other()
			now = now.Add(time.Minute)
			g.Broken(now) // the other may have granted locks until then
			now = now.Add(5 * time.Second)
			for range 2 { // the first connection breaks
				require.Equal(t, overwrite, connected(server1, keeps("p1:h1", 3*time.Hour)))
			}
			require.Equal(t, overwrite, connected(server1, keeps("p1:h1", 5*time.Second+time.Millisecond)))
			require.Nil(t, g.Stamped(now, overwrite, keeps("p1:h1", 0)))
			requireQuarantine(t, g, now, wholeTTL)
			require.Nil(t, connected(server1, keeps("p1:h1", time.Hour)), "from now on it remains the node")
		})
	}

	// A program that comes late must not reset the time of all.
	for name, test := range map[string]struct {
		later, age, left time.Duration
	}{
		"one that another program has stamped meanwhile": {5 * time.Second, 4 * time.Second, wholeTTL - 4*time.Second},
		"so long ago that nothing of the other is left":  {wholeTTL, 3 * time.Hour, 0},
		"long ago, when it was restarted":                {time.Hour, time.Hour - time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g = &wire.Guard{MaxTTL: maxTTL}
			connected(server2, keeps("p2:h2", time.Hour))
			now = now.Add(time.Hour)
			g.Broken(now)
			now = now.Add(test.later)
			require.Nil(t, connected(server1, keeps("p1:h1", test.age)))
			requireQuarantine(t, g, now, test.left)
		})
	}
}

func TestGuard_AServerWithoutAStampDoesNotVote(t *testing.T) {
	now := time.Unix(1000, 0)
	g := &wire.Guard{MaxTTL: maxTTL}
	require.Nil(t, g.Quarantine(now), "nothing is known yet, and nothing is asked")
	for _, server := range []wire.Identity{{}, {Process: "p1"}, {History: "h1"}} {
		require.Nil(t, g.Connected(now, server))
		require.ErrorContains(t, g.Quarantine(now), "it does not say which server it is")
		require.True(t, g.Unstamped())
	}
	for _, text := range []string{"NOREPLICAS x", "OOM x", "BUSY x", "NOPERM x", "ERR unknown command"} {
		refusal := wire.NewServerError(text)
		require.Nil(t, g.Stamped(now, g.Connected(now, server1), &wire.Reply{Answer: quorum.Refused, Err: refusal}))
		require.ErrorIs(t, g.Quarantine(now), nodeerr.ErrQuarantined)
		require.ErrorIs(t, g.Quarantine(now), refusal)
		require.True(t, g.Unstamped(), text)
	}
	set := g.Connected(now, server1)
	next := g.Stamped(now, set, keeps("p9:h9", 0))
	require.Nil(t, g.Stamped(now, next, keeps("p9:h9", 0)), "not again and again")
	require.ErrorContains(t, g.Quarantine(now), "does not keep the stamp")
	require.Nil(t, g.Stamped(now, set, keeps("p1:h1", time.Hour)))
	require.Nil(t, g.Quarantine(now))
	require.False(t, g.Unstamped())
}

func TestGuard_AServerWhoseStampMayHaveChangedDoesNotVote(t *testing.T) {
	now := time.Unix(1000, 0)
	g := &wire.Guard{MaxTTL: maxTTL}
	set := g.Connected(now, server1)
	require.Nil(t, g.Stamped(now, set, keeps("p1:h1", time.Hour)))
	require.Equal(t, set, g.Connected(now, server1))
	require.Nil(t, g.Quarantine(now), "that it is the same is no doubt")
	for i := range 2 {
		require.Equal(t, i == 0, g.Changed(now), "it is asked already")
		require.ErrorContains(t, g.Quarantine(now), "its stamp may have changed")
		require.True(t, g.Unstamped())
		require.Equal(t, set, g.Connected(now, server1))
		require.ErrorContains(t, g.Quarantine(now), "its stamp may have changed", "until it has answered")
	}
	require.Nil(t, g.Stamped(now, set, keeps("p1:h1", time.Hour)))
	require.Nil(t, g.Quarantine(now))
	require.False(t, g.Unstamped())

	refusal := wire.NewServerError("OOM x")
	require.Nil(t, g.Stamped(now, set, &wire.Reply{Answer: quorum.Refused, Err: refusal}))
	require.False(t, g.Changed(now))
	require.ErrorIs(t, g.Quarantine(now), refusal, "that says more")

	g.Stamped(now, set, keeps("p1:h1", 0))
	requireQuarantine(t, g, now, wholeTTL)
	require.False(t, g.Changed(now), "it does not vote in any case")
	require.True(t, g.Unstamped())

	none := new(wire.Guard)
	require.False(t, none.Changed(now))
	require.Nil(t, none.Quarantine(now))
}

func TestGuard_AYesDoesNotCountBehindAPush(t *testing.T) {
	now := time.Unix(1000, 0)
	g, acquire := &wire.Guard{MaxTTL: maxTTL}, &wire.Command{Class: wire.Vote}
	vote := func(cmd *wire.Command, r wire.Reply) wire.Reply {
		g.Vote(cmd, &r)
		return r
	}
	yes := wire.Reply{Answer: quorum.Yes, Command: "SET", Server: "p1", Fence: 7, Each: make([]wire.Reply, 2)}
	set := g.Connected(now, server1)
	g.Stamped(now, set, keeps("p1:h1", time.Hour))
	require.Equal(t, yes, vote(acquire, yes))
	g.Changed(now)
	refused := vote(acquire, yes)
	require.ErrorIs(t, refused.Err, nodeerr.ErrQuarantined)
	refused.Err = nil
	require.Equal(t, wire.Reply{Answer: quorum.Refused, Command: "SET", Server: "p1"}, refused)
	require.Equal(t, yes, vote(new(wire.Command), yes), "it takes no lock")
	for _, r := range []wire.Reply{{Answer: quorum.No}, {Answer: quorum.Refused}, {Answer: quorum.Yes, Late: true}} {
		require.Equal(t, r, vote(acquire, r))
	}
	g.Stamped(now, set, keeps("p1:h1", time.Hour))
	require.Equal(t, yes, vote(acquire, yes))
}

func TestGuard_WhatIsKnownOfAQuarantineStands(t *testing.T) {
	g, now := &wire.Guard{MaxTTL: maxTTL}, time.Unix(1000, 0)
	g.Stamped(now, g.Connected(now, server1), keeps("p1:h1", 0))
	g.Stamped(now, g.Connected(now, server1), keeps("p1:h1", time.Hour)) // a clock was stepped
	requireQuarantine(t, g, now, wholeTTL)
}

func TestGuard_WithoutAMaxTTLNothingIsStamped(t *testing.T) {
	g, now := new(wire.Guard), time.Unix(1000, 0)
	require.Nil(t, g.Connected(now, server1))
	require.Nil(t, g.Connected(now, wire.Identity{}))
	require.Nil(t, g.Quarantine(now))
	require.True(t, errors.Is(&nodeerr.QuarantineError{}, nodeerr.ErrQuarantined))
}
