package survey

import (
	"cmp"
	"slices"

	"github.com/quorumlock/quorumlock/redlock"
)

// Claim is a token on too few nodes, or the mark of sharers that are not shown. A majority may have it: the nodes that do not answer
// decide.
type Claim struct {
	Token string
	Kind  redlock.Kind
	On    int // nodes
}

// Claims returns the tokens of which a majority may have each, that on the most nodes first.
func (of *Listing) Claims(l *Lock) (all []Claim) {
	away := of.Unknowns(l)
	for _, v := range l.Views {
		i := slices.IndexFunc(all, func(c Claim) bool { return c.Token == v.Token && c.Kind == v.Kind })
		switch {
		case v.Other || v.Shown:
			continue
		case i < 0:
			i, all = len(all), append(all, Claim{Token: v.Token, Kind: v.Kind})
		}
		all[i].On++
	}
	all = slices.DeleteFunc(all, func(c Claim) bool { return c.On+away < of.Need })
	slices.SortStableFunc(all, func(a, b Claim) int { return cmp.Compare(b.On, a.On) })
	return all
}

// Claimants returns the sharers on too few nodes of which a majority may have each.
func (of *Listing) Claimants(l *Lock) []Holder {
	away := of.Unknowns(l)
	return slices.DeleteFunc(slices.Clone(l.Others), func(h Holder) bool { return h.Nodes+away < of.Need })
}

// Unknowns returns how many nodes may hold more of a lock than they have shown.
func (of *Listing) Unknowns(l *Lock) (n int) {
	for i, report := range of.Nodes {
		at := slices.IndexFunc(l.Views, func(v View) bool { return v.Node == i })
		if at < 0 && report.Err != nil || at >= 0 && l.Views[at].hidden() {
			n++
		}
	}
	return n
}
