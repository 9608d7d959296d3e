package web

import (
	"fmt"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock"
)

// claimant returns what the holder of the token calls itself, or the token.
func claimant(c survey.Claim) string {
	switch {
	case display.Several(c.Kind):
		return display.Nouns(c.Kind)
	case c.Token == "":
		return "an empty value"
	}
	if text := token.Metadata(c.Token); text != "" {
		return display.Clipped(text, maxText)
	}
	return display.Clipped(c.Token, maxToken)
}

// suspect says who may hold a lock of which too little is known, and why the rest is not known.
func (v *lockView) suspect(l *survey.Lock, snap *snapshot) {
	nodes, away := len(snap.Listing.Nodes), snap.Listing.Unknowns(l)
	sharers := snap.Listing.Claimants(l)
	switch all := snap.Listing.Claims(l); {
	case len(sharers) > 0:
		v.share(l, sharers)
		v.Perhaps = true
	case len(all) > 0:
		var names []string
		for _, c := range all {
			names = append(names, claimant(c))
		}
		v.Who, v.Perhaps = display.Either(names), true
		if len(all) == 1 {
			v.On = all[0].On
		}
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

// doubts reports whether it is not known who holds a lock, and was known last.
func (s *sight) doubts(l *survey.Lock) bool {
	return l.Verdict == redlock.VerdictUnknown && s.token != "" && s.without == 0
}

// same reports whether who may hold a lock of which too little is known is the holder that was known last.
func (s *sight) same(l *survey.Lock, of *survey.Listing) bool {
	if !s.doubts(l) {
		return false
	}
	all := of.Claims(l)
	if len(l.Others) > 0 {
		return len(all) == 0 && s.token == identity(l.Kind, "")
	}
	return len(all) == 1 && s.token == identity(all[0].Kind, all[0].Token)
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
