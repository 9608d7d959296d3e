package quorum_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// fencedNode is a node as fencing sees it.
type fencedNode struct {
	number  uint64
	holder  *contender // whose lock it holds; nil: nobody's
	granted uint64     // to it
}

// contender is a round with fencing. What is on its way to the nodes and back arrives in any order, late or never.
type contender struct {
	acquire *quorum.Acquire
	nodes   []fencedNode
	onWay   []func()
	began   uint64 // the highest token that had been won then
	won     bool
}

// Locks may end at any time and for any reason here, and messages take any time: there is no promise of exclusion then. Tokens
// grow all the same, from each lock that is won to each whose round begins afterwards, and no two are the same.
func TestTokensGrowWithoutAnyClock(t *testing.T) {
	const runs = 20000
	won := 0
	for seed := range uint64(runs) {
		won += grow(t, seed)
	}
	require.Greater(t, won, runs/2, "rounds that were won")
}

// grow lets some contenders have their way with some nodes, and returns how many have won.
func grow(t *testing.T, seed uint64) (won int) {
	r := rand.New(rand.NewPCG(seed, 1))
	nodes := make([]fencedNode, []int{1, 3, 4, 5}[r.IntN(4)])
	for i := range nodes {
		nodes[i].number = uint64(r.IntN(4))
	}
	highest, tokens := uint64(0), map[uint64]bool{}
	var all []*contender
	for range 80 {
		switch {
		case len(all) == 0 || len(all) < 8 && r.IntN(8) == 0:
			c := &contender{acquire: quorum.NewFencedAcquire(len(nodes), granted), nodes: nodes, began: highest}
			c.acquire.Asked(instant(start))
			for i := range nodes {
				c.onWay = append(c.onWay, func() { c.ask(i) })
			}
			all = append(all, c)
			continue
		case r.IntN(10) == 0: // a lock ends on a node, and its counter stays
			nodes[r.IntN(len(nodes))].holder = nil
			continue
		}
		c := all[r.IntN(len(all))]
		if len(c.onWay) == 0 {
			continue
		}
		i := r.IntN(len(c.onWay))
		arrive, before := c.onWay[i], c.won
		c.onWay = append(c.onWay[:i], c.onWay[i+1:]...)
		if r.IntN(20) == 0 { // it is lost
			continue
		}
		if arrive(); !c.won || before {
			continue
		}
		token := c.acquire.Fence()
		require.Falsef(t, tokens[token], "seed %d: two locks have the token %d", seed, token)
		require.Greaterf(t, token, c.began, "seed %d: a lock that was won before has a higher token", seed)
		tokens[token], highest = true, max(highest, token)
		won++
	}
	return won
}

func (c *contender) ask(node int) {
	n := &c.nodes[node]
	if n.holder != nil {
		c.onWay = append(c.onWay, func() { c.take(c.acquire.Vote(instant(start), node, quorum.No, "")) })
		return
	}
	n.number++
	number := n.number
	n.holder, n.granted = c, number
	c.onWay = append(c.onWay, func() { c.take(c.acquire.Granted(instant(start), node, number, "")) })
}

// take does what an event has brought about.
func (c *contender) take(e quorum.Effects) {
	c.won = c.won || e.Outcome == quorum.Done
	for _, node := range e.Raise {
		number, token := c.acquire.Number(node), c.acquire.Fence()
		c.onWay = append(c.onWay, func() { c.raise(node, number, token) })
	}
	for _, node := range e.Release {
		c.onWay = append(c.onWay, func() {
			if n := &c.nodes[node]; n.holder == c {
				n.holder = nil
			}
		})
	}
}

func (c *contender) raise(node int, number, token uint64) {
	n, vote := &c.nodes[node], quorum.No
	if n.holder == c && n.granted == number {
		n.number, n.granted, vote = max(n.number, token), token, quorum.Yes
	}
	c.onWay = append(c.onWay, func() { c.take(c.acquire.Raised(instant(start), node, vote)) })
}
