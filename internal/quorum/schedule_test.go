package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

const schedulesPerSize = 2000

// eachRandomSchedule runs a test for every number of nodes and many seeds, always the
// same. A failure prints the history, which is all there is to replay.
func eachRandomSchedule(t *testing.T, run func(t *testing.T, n int, random *rand.Rand)) {
	for n := 1; n <= mostNodes; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(schedulesPerSize) {
				run(t, n, rand.New(rand.NewPCG(uint64(n), seed)))
			}
		})
	}
}

// schedule makes up what happens to a machine: votes again and again, confirmed
// releases, a clock that may run out, a caller that may give up. Some nodes share a
// server, and some servers are unknown.
type schedule struct {
	random  *rand.Rand
	servers []string
	now     time.Time
	// yes has the servers that said yes before validUntil.
	validUntil time.Time
	yes        map[string]bool
}

func newSchedule(n int, random *rand.Rand, validUntil time.Time) *schedule {
	s := &schedule{
		random: random, servers: make([]string, n), now: inTime,
		validUntil: validUntil, yes: map[string]bool{},
	}
	known := random.IntN(2*n) + 1
	for node := range s.servers {
		if server := random.IntN(known + 1); server > 0 {
			s.servers[node] = fmt.Sprintf("server%d", server)
		}
	}
	return s
}

// run plays events of all kinds at the nodes; in the end every one has voted.
func (s *schedule) run(t *testing.T, m *match, nodes []int) {
	favourite := votes[s.random.IntN(2)] // so that majorities of either word come about
	for range s.random.IntN(4*len(nodes)) + 1 {
		if s.random.IntN(6*len(nodes)) == 0 {
			s.now = deadline
		}
		node := nodes[s.random.IntN(len(nodes))]
		switch _, acquire := m.machine.(*quorum.Acquire); {
		case acquire && len(m.released) > 0 && s.random.IntN(2) == 0:
			m.play(t, event{what: aRelease, node: m.released[s.random.IntN(len(m.released))]})
		case s.random.IntN(2) == 0:
			s.vote(t, m, node, favourite)
		case s.random.IntN(30) == 0:
			m.play(t, event{what: aStop, at: s.now})
		default:
			s.vote(t, m, node, votes[s.random.IntN(len(votes))])
		}
	}
	for _, node := range nodes {
		s.vote(t, m, node, quorum.Lost)
	}
}

func (s *schedule) vote(t *testing.T, m *match, node int, vote quorum.Vote) {
	server := s.servers[node]
	if vote == quorum.Yes && s.now.Before(s.validUntil) && m.machine.Said(node) == quorum.Pending {
		name := server
		if name == "" {
			name = fmt.Sprintf("the server of node %d", node)
		}
		s.yes[name] = true
	}
	m.play(t, event{what: aVote, at: s.now, node: node, vote: vote, server: server})
}
