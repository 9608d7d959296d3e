package web

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"html/template"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/redlock"
)

// lockView is a lock on the page.
type lockView struct {
	ID, Name    string
	Query       template.URL // has the name
	State, Text string
	Who, Token  string
	Names       string // of the first sharers, and how many more there are
	Calls, More string // the same for a row, which has no room for long names
	Waiting     string // how many processes do
	Kept        string // for how many of its holders no process listens
	Keeping     string // the same in a sentence, on the page about it
	Shared      shared // on the page about it
	Perhaps     bool   // the nodes that do not answer decide whether Who holds it
	Away        string // what is known of these nodes
	Fence       uint64
	Held        string // for how long it was seen so; "" if it was not
	AtLeast     bool   // it may have been held before, or longer than it was known
	Left        string
	Share       int // of the longest TTL of this holder that is left, in percent
	On, Of      int
	Nodes       []holding    // on the page about it
	Changes     []changeView // on the page about it, the newest first
	Unlockable  bool
	Obstacle    string // why it cannot be freed
	Known       string // who held it when that was known last, on the page about it
}

// holding is what one node holds of a lock.
type holding struct {
	Addr, State, Text, Token, Left string
	Fence                          uint64
}

// states of a lock and of what a node holds of it, with what the page says.
const (
	stateHeld    = "held"
	stateForever = "forever"
	stateSplit   = "split"
	stateOther   = "other"
	stateFree    = "free"
	stateUnknown = "unknown"
)

// scene is what is known of all locks when a page is shown.
type scene struct {
	*Server
	snap *snapshot
	past *history
	age  time.Duration // of the listing
}

// lock shows a lock as it is expected to be by now.
func (s *scene) lock(l *survey.Lock) lockView {
	hash := fnv.New64a()
	hash.Write([]byte(l.Name))
	v := lockView{
		ID: fmt.Sprintf("lock-%x", hash.Sum64()), Name: display.Clipped(l.Name, maxText), Query: query{Name: l.Name}.Link(),
		Who: display.Clipped(l.Metadata, maxText), Token: display.Clipped(l.Token, maxToken), Fence: l.Fence, Left: left(l.TTL, s.age), On: l.On, Of: len(s.Servers),
	}
	v.State, v.Text = stateOf(l)
	if s.AllowUnlock && !l.Other {
		v.Obstacle = s.obstacle(l)
		v.Unlockable = v.Obstacle == ""
	}
	switch {
	case l.Verdict == redlock.VerdictUnknown:
		v.suspect(l, s.snap)
	case l.Empty:
		v.Token = tokenText("", maxToken)
	case display.Several(l.Kind) && l.Held():
		v.share(l, l.Holders)
	}
	v.Waiting = l.WaitWord()
	v.Kept, v.Keeping = l.KeptWord(), keeping(l)
	sight := s.past.last[l.Name]
	switch {
	case sight == nil:
		return v
	case sight.same(l, s.snap.Listing):
		v.Held, _ = heldFor(sighting{sight.since, true}, sight.at)
		v.AtLeast = true
		return v
	case !l.Held():
		return v
	}
	if sight.longest > 0 && l.TTL != redlock.NoLimit {
		v.Share = int(100 * max(0, l.TTL-s.age) / sight.longest)
	}
	v.Held, v.AtLeast = heldFor(sighting{sight.since, sight.atLeast}, s.past.lastAt)
	return v
}

// obstacle returns why a lock cannot be freed, "" if it can.
func (s *scene) obstacle(l *survey.Lock) string {
	foreign := 0
	for _, v := range l.Views {
		if v.Other && s.snap.answers(v.Node) {
			foreign++
		}
	}
	return obstacle(s.snap.answering(), foreign, len(s.snap.Listing.Nodes), s.snap.Listing.Need)
}

func stateOf(l *survey.Lock) (state, text string) {
	switch {
	case l.Other || l.Verdict == redlock.VerdictForeign:
		return stateOther, "data of another program"
	case l.Verdict == redlock.VerdictNobody:
		return stateSplit, "held by nobody"
	case !l.Held():
		return stateUnknown, "unknown"
	case l.Empty && l.TTL == redlock.NoLimit:
		return stateForever, "held for ever by an empty value"
	case l.Empty:
		return stateHeld, "held by an empty value"
	case l.TTL == redlock.NoLimit:
		return stateForever, "held for ever"
	}
	return stateHeld, "held"
}

func left(ttl, age time.Duration) string {
	if ttl == redlock.NoLimit {
		return remaining(ttl)
	}
	return remaining(max(0, ttl-age))
}

// about shows one lock, with what each node holds of it and what has happened to it.
func (s *scene) about(name string) *lockView {
	listing := s.snap.Listing
	l := &survey.Lock{Name: name}
	listing.Judge(l)
	i, found := slices.BinarySearchFunc(listing.Locks, name, func(l survey.Lock, name string) int { return cmp.Compare(l.Name, name) })
	if found {
		l = &listing.Locks[i]
	}
	v := s.lock(l)
	if l.Token != "" {
		v.Token = display.Clipped(l.Token, maxText)
	}
	if !found {
		v.Left, v.Away, v.Unlockable, v.Obstacle = "", "", false, ""
		switch {
		case listing.Truncated:
			v.State, v.Text = stateUnknown, "unknown: not among those that were listed"
		case l.Verdict == redlock.VerdictNobody:
			v.State = stateFree
		case s.snap.answering() >= listing.Need:
			v.Text = "unknown: too few nodes list all of their locks"
		default:
			v.Text = "unknown: too few nodes answer"
		}
	}
	if past := s.past.last[name]; v.State == stateUnknown && past != nil && past.token != "" && past.without == 0 {
		v.Known = fmt.Sprintf("%s, at %s", display.Clipped(cmp.Or(past.metadata, past.token), maxText), clock(past.at))
	}
	v.Shared = s.sharers(l)
	for i := range listing.Nodes {
		v.Nodes = append(v.Nodes, s.holding(l, i))
	}
	v.Changes = timeline(s.past, name)
	return &v
}

// holding shows what the i-th node holds of a lock.
func (s *scene) holding(l *survey.Lock, i int) holding {
	report := s.snap.Listing.Nodes[i]
	h := holding{Addr: display.Clipped(report.Addr, maxText), State: stateFree, Text: "nothing"}
	if report.Err != nil {
		h.State, h.Text = stateUnknown, "not known: "+errorText(report.Err)
	}
	at := slices.IndexFunc(l.Views, func(v survey.View) bool { return v.Node == i })
	if at < 0 {
		return h
	}
	view := l.Views[at]
	h.State, h.Text, h.Left = stateSplit, "a token", left(view.TTL, s.age)
	h.Token, h.Fence = tokenText(view.Token, maxText), view.Fence
	switch {
	case view.Other:
		h.State, h.Text, h.Token = stateOther, "data of another program", ""
	case display.Several(view.Kind):
		h.Text, h.Token = display.Nouns(view.Kind), ""
		if view.Shown {
			h.Text = display.Sharers(len(view.Sharers), view.More, view.Kind)
			h.Left = left(display.Last(view.Sharers, view.TTL), s.age)
		}
		if l.Held() && l.Kind == view.Kind {
			h.State = stateHeld
		}
	case view.Token == "":
		h.Text = "an empty value"
	case l.Held() && view.Token == l.Token:
		h.State, h.Text = stateHeld, "the holder's token"
	case l.Held():
		h.Text = "another token"
	}
	return h
}
