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
		set := g.Connected(server1)
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
	set := g.Connected(wire.Identity{Process: "p1", History: "h3", Before: "h2"})
	require.Equal(t, []string{"p1:h3", "PX", stampMs}, g.Stamped(now, set, keeps("p1:h1", time.Hour)))
}

// The danger: a name goes from server1 server to another and back, and the server1 is taken for server1 that has been the node all the time.
func TestGuard_AServerToWhichANameComesBackIsStampedAnew(t *testing.T) {
	now := time.Unix(1000, 0)
	connected := func(g *wire.Guard, server wire.Identity, answers ...*wire.Reply) {
		set := g.Connected(server)
		for _, r := range answers {
			set = g.Stamped(now, set, r)
		}
	}
	for name, server2 := range map[string]func(g *wire.Guard){
		"stamped":      func(g *wire.Guard) { connected(g, server2, keeps("p2:h2", 0)) },
		"not answered": func(g *wire.Guard) { connected(g, server2) },
		"refused": func(g *wire.Guard) {
			connected(g, server2, &wire.Reply{Answer: quorum.Refused, Err: wire.NewServerError("NOREPLICAS x")})
		},
		"without an id": func(g *wire.Guard) { connected(g, server2); connected(g, wire.Identity{}) },
	} {
		t.Run(name, func(t *testing.T) {
			g := &wire.Guard{MaxTTL: maxTTL}
			connected(g, server1, keeps("p1:h1", time.Hour))
			requireQuarantine(t, g, now, 0)
			server2(g)
			require.Equal(t, []string{"p1:h1", "PX", stampMs}, g.Connected(server1))
			connected(g, server1) // and the connection breaks
			set := g.Connected(server1)
			require.Equal(t, []string{"p1:h1", "PX", stampMs}, set)
			require.Nil(t, g.Stamped(now, set, keeps("p1:h1", 0)))
			requireQuarantine(t, g, now, wholeTTL)
			require.Equal(t, "NX", g.Connected(server1)[1], "from now on it remains the node")
		})
	}
}

func TestGuard_AServerWithoutAStampDoesNotVote(t *testing.T) {
	now := time.Unix(1000, 0)
	g := &wire.Guard{MaxTTL: maxTTL}
	require.Nil(t, g.Quarantine(now), "nothing is known yet, and nothing is asked")
	for _, server := range []wire.Identity{{}, {Process: "p1"}, {History: "h1"}} {
		require.Nil(t, g.Connected(server))
		require.ErrorContains(t, g.Quarantine(now), "it does not say which server it is")
		require.Nil(t, g.Again())
	}
	for _, text := range []string{"NOREPLICAS x", "OOM x", "BUSY x", "NOPERM x", "ERR unknown command"} {
		refusal := wire.NewServerError(text)
		require.Nil(t, g.Stamped(now, g.Connected(server1), &wire.Reply{Answer: quorum.Refused, Err: refusal}))
		require.ErrorIs(t, g.Quarantine(now), nodeerr.ErrQuarantined)
		require.ErrorIs(t, g.Quarantine(now), refusal)
		require.NotNil(t, g.Again(), text)
		require.NotNil(t, g.Again(), "until it is answered: %s", text)
	}
	set := g.Connected(server1)
	next := g.Stamped(now, set, keeps("p9:h9", 0))
	require.Nil(t, g.Stamped(now, next, keeps("p9:h9", 0)), "not again and again")
	require.ErrorContains(t, g.Quarantine(now), "does not keep the stamp")
	require.Nil(t, g.Stamped(now, set, keeps("p1:h1", time.Hour)))
	require.Nil(t, g.Quarantine(now))
	require.Nil(t, g.Again())
}

func TestGuard_WhatIsKnownOfAQuarantineStands(t *testing.T) {
	g, now := &wire.Guard{MaxTTL: maxTTL}, time.Unix(1000, 0)
	g.Stamped(now, g.Connected(server1), keeps("p1:h1", 0))
	g.Stamped(now, g.Connected(server1), keeps("p1:h1", time.Hour)) // a clock was stepped
	requireQuarantine(t, g, now, wholeTTL)
}

func TestGuard_WithoutAMaxTTLNothingIsStamped(t *testing.T) {
	g := new(wire.Guard)
	require.Nil(t, g.Connected(server1))
	require.Nil(t, g.Connected(wire.Identity{}))
	require.Nil(t, g.Quarantine(time.Now()))
	require.True(t, errors.Is(&nodeerr.QuarantineError{}, nodeerr.ErrQuarantined))
}
