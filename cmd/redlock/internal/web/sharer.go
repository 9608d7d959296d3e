package web

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// maxSharers is how many sharers of a lock a page shows.
	maxSharers = 256
	// maxNames is how many of them a row names, each with at most maxCall characters.
	maxNames = 2
	maxCall  = 36
	// maxSightings is how many sharers of all locks are remembered from one listing to the next.
	maxSightings = 20_000
)

// sharerView is a sharer of a lock.
type sharerView struct {
	ID, State, Who, Token string
	Slot                  string
	Left, Held            string
	AtLeast               bool
	On, Of                int
	Kept                  bool
	End                   template.URL // the query of the dialog that ends it; "" if it cannot be ended
}

// shared is the table of the sharers of a lock.
type shared struct {
	Sharers []sharerView
	More    int  // left out
	Slots   bool // they have slots
	Seen    bool // it is known since when they were seen
	Ends    bool // there are buttons that end them
}

// sharerKey tells sharers apart: one may have several slots.
type sharerKey struct {
	token redlock.Token
	slot  int
}

// sighting is since when a sharer was seen.
type sighting struct {
	since   time.Time
	atLeast bool // it may have been there before
}

// called returns what a holder calls itself, or its token.
func called(h redlock.Holder) string {
	if h.Metadata != "" {
		return display.Clipped(h.Metadata, maxText)
	}
	return tokenText(string(h.Token), maxToken)
}

// named returns what the first ones call themselves, whole and for a row, and how many more there are, "" for none.
func named(of []survey.Holder) (names, calls, more string) {
	var whole, cut []string
	for _, h := range of[:min(len(of), maxNames)] {
		name := called(h.Holder)
		whole, cut = append(whole, name), append(cut, display.Clipped(name, maxCall))
	}
	if n := len(of) - len(whole); n > 0 {
		more = fmt.Sprintf("+%d", n)
		whole = append(whole, more)
	}
	return strings.Join(whole, ", "), strings.Join(cut, ", "), more
}

// share says who shares a lock.
func (v *lockView) share(l *survey.Lock, of []survey.Holder) {
	if len(of) == 0 {
		v.Who = display.Nouns(l.Kind) // too few nodes have shown who they are
		return
	}
	v.Who = display.Sharers(len(of), l.More, l.Kind)
	v.Names, v.Calls, v.More = named(of)
}

// sharer shows one sharer of a lock.
func sharer(kind redlock.Kind, h redlock.Holder, of int) sharerView {
	v := sharerView{
		State: stateHeld, Who: called(h), Token: display.Clipped(string(h.Token), maxToken), Left: left(h.TTL, 0), On: h.Nodes, Of: of,
	}
	switch {
	case kind != redlock.KindSlot:
	case h.Slot < 0:
		v.Slot = "none"
	default:
		v.Slot = strconv.Itoa(h.Slot)
	}
	return v
}

// sharers shows the sharers of a lock, the holders first.
func (s *scene) sharers(l *survey.Lock) (all shared) {
	if !display.Several(l.Kind) {
		return all
	}
	all = shared{Slots: l.Kind == redlock.KindSlot, Seen: true, Ends: s.AllowUnlock && s.obstacle(l) == ""}
	away, of := s.snap.Listing.Unknowns(l), s.snap.Listing
	for i, h := range slices.Concat(l.Holders, l.Others) {
		if i == maxSharers {
			all.More = len(l.Holders) + len(l.Others) - maxSharers
			break
		}
		v := sharer(l.Kind, h.Holder, len(of.Nodes))
		v.ID, v.Left, v.Kept = sharerID(h.Holder), left(h.TTL, s.age), h.Kept
		if i >= len(l.Holders) {
			v.State = shortOf(h.Nodes+away, of.Need)
		}
		if all.Ends {
			v.End = endQuery(l.Name, string(h.Token))
		}
		if sight := s.past.last[l.Name]; sight != nil {
			if seen, found := sight.sharers[sharerKey{h.Token, h.Slot}]; found {
				v.Held, v.AtLeast = heldFor(seen, s.past.lastAt)
				v.AtLeast = v.AtLeast || v.State == stateUnknown
			}
		}
		all.Sharers = append(all.Sharers, v)
	}
	return all
}

// shortOf returns the state of a sharer that is not known to be on as many nodes as it needs: it may be on most.
func shortOf(most, need int) string {
	if most < need {
		return stateSplit
	}
	return stateUnknown
}

// heldFor returns for how long a holder was seen until a time, "" if that is not worth saying.
func heldFor(seen sighting, until time.Time) (held string, atLeast bool) {
	long := until.Sub(seen.since)
	if long < time.Second && seen.atLeast {
		return "", false
	}
	return remaining(max(long, 1)), seen.atLeast
}

// sharerID returns the ID of a row, which stays while the one is there.
func sharerID(h redlock.Holder) string {
	hash := fnv.New64a()
	hash.Write([]byte(h.Token))
	return fmt.Sprintf("sharer-%x-%d", hash.Sum64(), h.Slot)
}

// endQuery returns the query of the dialog that ends one sharer.
func endQuery(name, token string) template.URL {
	return template.URL(url.Values{"name": {name}, "token": {encoding.EncodeToString([]byte(token))}}.Encode())
}

// meet notes since when each sharer of a lock was seen, and returns how many there are. It leaves out sharers above room. With doubt,
// a new one may have been there before.
func (s *sight) meet(now time.Time, l *survey.Lock, room int, doubt bool) int {
	if !display.Several(l.Kind) {
		s.sharers = nil
		return 0
	}
	known := s.sharers
	s.sharers = map[sharerKey]sighting{}
	for _, h := range slices.Concat(l.Holders, l.Others) {
		key := sharerKey{h.Token, h.Slot}
		seen, found := known[key]
		switch {
		case found:
		case len(s.sharers) < room:
			seen = sighting{now, doubt || s.partial}
		default:
			continue
		}
		s.sharers[key] = seen
	}
	s.partial = l.More || l.Held() && len(l.Holders) == 0 || len(s.sharers) == room
	return len(s.sharers)
}

// seeks reports whether a lock has a text in its name, or in what is known of its holders, and of others who may hold it.
func seeks(l *survey.Lock, text string) bool {
	in := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return in(l.Name) || in(l.Metadata) || in(l.Token) ||
		slices.ContainsFunc(l.Views, func(v survey.View) bool { return in(v.Token) }) ||
		slices.ContainsFunc(slices.Concat(l.Holders, l.Others), func(h survey.Holder) bool { return in(string(h.Token)) || in(h.Metadata) })
}

// holder returns what a lock's holder, or its first sharer, calls itself, or else the token.
func holder(l *survey.Lock) string {
	if l.Metadata == "" && l.Token == "" && len(l.Holders) > 0 {
		return cmp.Or(l.Holders[0].Metadata, string(l.Holders[0].Token))
	}
	return cmp.Or(l.Metadata, l.Token)
}

// keeping says for how many of the holders no process listens, in a sentence; "" for none.
func keeping(l *survey.Lock) string {
	n := l.KeptHolders()
	if n == 0 {
		return ""
	}
	return "No process listens for " + survey.Unheard(n, len(l.Holders), l.Kind)
}
