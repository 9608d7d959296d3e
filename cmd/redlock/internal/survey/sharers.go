package survey

import (
	"slices"

	"github.com/quorumlock/quorumlock/redlock"
)

// Sharers returns the sharers of a kind who hold a lock, and behind them the sharers on fewer nodes, with the longest TTL on any. A
// sharer that has several slots is there once for each.
func Sharers(s *redlock.LockState, kind redlock.Kind) (all []redlock.Holder) {
	type sharer struct {
		token redlock.Token
		slot  int
	}
	place := map[sharer]int{}
	if s.Kind == kind {
		all = slices.Clone(s.Holders)
	}
	holders := len(all)
	for i, r := range all {
		place[sharer{r.Token, r.Slot}] = i
	}
	for _, n := range s.Nodes {
		if n.Kind != kind {
			continue
		}
		for _, r := range n.Holders {
			who := sharer{r.Token, r.Slot}
			i, known := place[who]
			switch {
			case !known:
				place[who] = len(all)
				all = append(all, r)
			case i >= holders:
				all[i].Nodes++
				all[i].TTL = max(all[i].TTL, r.TTL)
			}
		}
	}
	return all
}
