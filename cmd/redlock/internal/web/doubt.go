package web

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock"
)

// claim is a token on too few nodes, which may be on a majority: the nodes that do not answer decide.
type claim struct {
	token string
	kind  redlock.Kind
	on    int // nodes
}

// who returns what the holder of the token calls itself, or the token.
func (c claim) who() string {
	switch {
	case display.Several(c.kind):
		return display.Nouns(c.kind)
	case c.token == "":
		return "an empty value"
	}
	if text := token.Metadata(c.token); text != "" {
		return display.Clipped(text, maxText)
	}
	return display.Clipped(c.token, maxToken)
}

// claims returns the tokens of which a majority may have each, that on the most nodes first.
func claims(l *survey.Lock, of *survey.Listing) (all []claim) {
	away := unknowns(l, of)
	for _, v := range l.Views {
		i := slices.IndexFunc(all, func(c claim) bool { return c.token == v.Token && c.kind == v.Kind })
		switch {
		case v.Other || v.Shown:
			continue
		case i < 0:
			i, all = len(all), append(all, claim{token: v.Token, kind: v.Kind})
		}
		all[i].on++
	}
	all = slices.DeleteFunc(all, func(c claim) bool { return c.on+away < of.Need })
	slices.SortStableFunc(all, func(a, b claim) int { return cmp.Compare(b.on, a.on) })
	return all
}

// unknowns returns how many nodes may hold more of a lock than they have shown.
func unknowns(l *survey.Lock, of *survey.Listing) (n int) {
	for i, report := range of.Nodes {
		at := slices.IndexFunc(l.Views, func(v survey.View) bool { return v.Node == i })
		if at < 0 && report.Err != nil || at >= 0 && display.Several(l.Views[at].Kind) && !l.Views[at].Shown {
			n++
		}
	}
	return n
}

// suspect says who may hold a lock of which too little is known, and why the rest is not known.
func (v *lockView) suspect(l *survey.Lock, snap *snapshot) {
	nodes, away := len(snap.Listing.Nodes), unknowns(l, snap.Listing)
	sharers := slices.DeleteFunc(slices.Clone(l.Others), func(h survey.Holder) bool { return h.Nodes+away < snap.Listing.Need })
	switch all := claims(l, snap.Listing); {
	case len(sharers) > 0:
		v.share(l, sharers)
		v.Perhaps = true
	case len(all) == 0:
	case len(all) == 1:
		v.Who, v.On, v.Perhaps = all[0].who(), all[0].on, true
	case len(all) == 2:
		v.Who, v.Perhaps = all[0].who()+" or "+all[1].who(), true
	default:
		v.Who, v.Perhaps = fmt.Sprintf("one of %d", len(all)), true
	}
	known := snap.answering() > nodes-away // but have not listed all, such as not in time
	switch {
	case away == 1 && known:
		v.Away = "1 is not known"
	case known:
		v.Away = fmt.Sprintf("%d are not known", away)
	case away == nodes-v.On:
		v.Away = "the others do not answer"
	case away == 1:
		v.Away = "1 does not answer"
	default:
		v.Away = fmt.Sprintf("%d do not answer", away)
	}
}

// obstacle returns why a lock cannot be freed, "" if it can: some nodes answer, of which some have data of another program. A
// lock that is removed from fewer nodes than a majority may be held as before.
func obstacle(answering, foreign, nodes, need int) string {
	switch free := answering - foreign; {
	case answering < need:
		return fmt.Sprintf("only %d of %d nodes answer, and %d are needed", answering, nodes, need)
	case free < need:
		return fmt.Sprintf("only %d of %d nodes answer without data of another program, and %d are needed", free, nodes, need)
	}
	return ""
}
