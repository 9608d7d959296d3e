package lock_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// waits is what happens to a call that waits.
func (s *teller) waits(who, line string) []lock.Act {
	c := s.calls[who]
	switch line[2:] {
	case "waits":
		c = &lock.Call{Want: &lock.Want{TTL: 10 * time.Second, MaxHold: lock.NoLimit}, Of: who}
		s.calls[who] = c
		return s.name.Wait(nil, c)
	case "leaves":
		return s.name.Leave(nil, c)
	case "asks":
		s.kind, s.outcome, s.acquire, s.asks = "acquire", quorum.Undecided, new(lock.Acquire), c
		s.round = &s.acquire.Round
		return s.name.Ask(nil, s.acquire, c, "token", nil)
	case "goes on":
		return s.name.Lost(nil, c, s.acquire)
	}
	require.Equal(s, "waits elsewhere", line[2:])
	return s.name.PeersWait(nil, 0, []lock.Peer{{Owner: who}})
}

// shown is what a node shows to a waiter.
func (s *teller) shown(words []string) *wire.Reply {
	switch {
	case words[0] == "nothing":
		return &wire.Reply{Answer: quorum.No, Tracked: true}
	case words[0] == "data" && len(words) == 1:
		return &wire.Reply{Answer: quorum.Refused, Err: nodeerr.ErrForeign, Tracked: true}
	case words[2] == "ever":
		return &wire.Reply{Answer: quorum.Yes, Value: words[0], TTL: wire.NoTTL, Tracked: true}
	}
	ttl, err := time.ParseDuration(words[2])
	require.NoError(s, err)
	if words[0] == "data" {
		return &wire.Reply{Answer: quorum.Refused, Err: nodeerr.ErrForeign, TTL: ttl, Tracked: true}
	}
	return &wire.Reply{Answer: quorum.Yes, Value: words[0], TTL: ttl, Tracked: true}
}

func (s *teller) unlock() []string {
	if next := s.name.Next(s.lease, &s.hold); next != nil {
		var acts []lock.Act
		acts, s.hold = s.name.HandOff(nil, s.lease, &s.hold, next.Want)
		return append([]string{fmt.Sprintf("%v has the lock", next.Of)}, s.comesOf(acts)...)
	}
	s.lease.Leave(s.now, &s.hold)
	return s.comesOf(s.ask("release"))
}

// act puts into words what is not sent as a command of the lock.
func (s *teller) act(a *lock.Act) string {
	switch a.What {
	case lock.Offer:
		return fmt.Sprintf("%v may ask", a.Call.Of)
	case lock.Foreign:
		return fmt.Sprintf("the wait of %v ends", a.Call.Of)
	case lock.Wake:
		s.wakeAt = a.At
		return fmt.Sprintf("wake in %v", a.At.Sub(s.now))
	case lock.Publish:
		through := fmt.Sprintf("node %d", a.Message.Node)
		if a.Message.Node == lock.AllNodes {
			through = "all nodes"
		}
		var peers []string
		for _, p := range a.Message.Peers {
			peers = append(peers, p.Owner)
		}
		return fmt.Sprintf("tell %s through %s: %s %v", a.Message.To, through, a.Message.What, peers)
	case lock.Listen:
		return "listen"
	case lock.Warn:
		return fmt.Sprintf("log that nodes %v hold it without a TTL", a.Stuck.Nodes)
	}
	return fmt.Sprint(a.What)
}
