package web

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// maxRows is how many locks a page shows.
const maxRows = 200

// view is what the templates show. All texts of servers in it are visible, and the templates escape them.
type view struct {
	Process, Secret string // see Server
	AllowUnlock     bool
	Prefix          string
	Refresh         int // seconds
	Query           query
	Fault           string // instead of all that follows

	At          string // the time of day as of which all is; "" if nothing is known yet
	Answered    int    // nodes
	Quarantined int    // of them
	Need        int
	Nodes       []nodeView
	Scale       string // what the height of their sparklines stands for
	Locks       []lockView
	Listed      bool   // the locks are known
	Matching    int    // locks that the filter lets through
	Wrong       int    // of them; they come first
	Total       int    // locks
	Truncated   bool   // there are more than were listed
	ListFault   string // why the locks cannot be judged
	Changes     []changeView
	Examination examinationView
	Lock        *lockView // the one that the page is about; nil if it is about all
	Unlock      *unlockView
}

// column is the head of a column by which the locks may be sorted.
type column struct {
	Query       query
	Order, Text string
	Direction   string // "" if the locks are not sorted by it
}

// Column returns the head of a column.
func (v *view) Column(order, text string) column {
	c := column{v.Query, order, text, ""}
	switch {
	case order != v.Query.Sort:
	case order == "held":
		c.Direction = "descending" // the time since then is ascending
	default:
		c.Direction = "ascending"
	}
	return c
}

// Voting returns how many nodes programs may ask for locks.
func (v *view) Voting() int { return v.Answered - v.Quarantined }

// More returns how many locks are left out that the filter lets through.
func (v *view) More() int { return v.Matching - len(v.Locks) }

// nodeView is a node on the page.
type nodeView struct {
	Addr, State, Text, Detail string
	Latency, Up, Version      string
	Keys                      string // how many; "" if that is not known
	Line                      sparkline
}

// lockView is a lock on the page.
type lockView struct {
	ID, Name    string
	Query       template.URL // has the name
	State, Text string
	Who, Token  string
	Fence       uint64
	Held        string // for how long it was seen so; "" if it was not
	AtLeast     bool   // it may have been held before
	Left        string
	Share       int // of the longest TTL of this holder that is left, in percent
	On, Of      int
	Nodes       []holding    // on the page about it
	Changes     []changeView // on the page about it, the newest first
	Unlockable  bool
}

// holding is what one node holds of a lock.
type holding struct {
	Addr, State, Text, Token, Left string
	Fence                          uint64
}

// changeView is a change of a lock on the page.
type changeView struct {
	Clock, Date, State, Text, Name, Who, Token, Was string
	Query                                           template.URL // has the name
}

// examinationView is what the doctor has found.
type examinationView struct {
	Running, Done bool
	At, Fault     string
	Checks        int
	Unexamined    int
	Away          []string // nodes that do not answer now
	Findings      []doctor.Group
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

// view shows what the poller knows.
func (s *Server) view(q query, snap *snapshot, now time.Time) *view {
	v := s.base(q)
	v.Examination = examine(s.examiner.result())
	if snap == nil {
		return v
	}
	v.At, v.Listed = clock(snap.Asked), snap.Listing != nil
	if v.Listed && snap.At.Before(snap.Asked) {
		v.At = clock(snap.At) // the older one
	}
	full := scale(snap.Nodes)
	v.Scale = latency(full)
	for i := range snap.Nodes {
		n := s.node(&snap.Nodes[i], full, now)
		if snap.Nodes[i].Err == nil {
			v.Answered++
		}
		switch n.State {
		case "quarantined":
			v.Quarantined++
		case "down":
			v.Examination.Away = append(v.Examination.Away, n.Addr)
		}
		if snap.Listing != nil {
			report := snap.Listing.Nodes[i]
			n.Keys = keys(&report)
			if report.Err != nil && n.Detail == "" && snap.Nodes[i].Err == nil {
				n.Detail = "not all of its locks are listed: " + errorText(report.Err)
			}
		}
		v.Nodes = append(v.Nodes, n)
	}
	v.ListFault = errorText(snap.Err)
	if snap.Listing == nil {
		return v
	}
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	past, age := s.poller.history, now.Sub(snap.At)
	v.Total, v.Truncated = len(snap.Listing.Locks), snap.Listing.Truncated
	if q.Name != "" {
		v.Lock = s.about(q.Name, snap, past, age)
		return v
	}
	shown, wrong := q.apply(snap.Listing.Locks, past, s.Prefix != "")
	v.Matching, v.Wrong = len(shown), wrong
	for _, l := range shown[:min(len(shown), maxRows)] {
		v.Locks = append(v.Locks, s.lock(l.Lock, past, age))
	}
	for _, e := range slices.Backward(past.recent) {
		if len(v.Changes) == maxChanges {
			break
		}
		v.Changes = append(v.Changes, change(e))
	}
	return v
}

// maxChanges is how many changes the page about all locks shows.
const maxChanges = 12

// base returns what every page has.
func (s *Server) base(q query) *view {
	return &view{
		Process: s.process, Secret: s.secret, AllowUnlock: s.AllowUnlock, Prefix: display.Clipped(s.Prefix, maxText), Query: q,
		Refresh: max(5, int(s.Interval/time.Second)), Need: len(s.Servers)/2 + 1,
	}
}

// node shows a node as it is expected to be by now, with a sparkline whose height stands for full.
func (s *Server) node(h *health, full time.Duration, now time.Time) nodeView {
	n := nodeView{Addr: display.Clipped(h.Addr, maxText), Latency: latency(h.Took), Version: h.Version, Line: spark(h.Latencies, full)}
	if h.Up >= 0 {
		n.Up = span(h.Up)
	}
	quarantine, doubt := s.quarantine(h, now)
	refusal := (*nodeerr.ServerError)(nil)
	switch {
	case errors.As(h.Err, &refusal):
		n.State, n.Text, n.Detail = "down", "refuses", errorText(h.Err)
	case h.Err != nil:
		n.State, n.Text, n.Detail = "down", "no answer", errorText(h.Err)
	case quarantine != "":
		n.State, n.Text, n.Detail = "quarantined", "quarantined", quarantine
	case h.Took > s.NodeTimeout:
		n.State, n.Text, n.Detail = "slow", "slow", fmt.Sprintf("programs wait for a node no longer than %s", latency(s.NodeTimeout))
	default:
		n.State, n.Text, n.Detail = "up", "answers", doubt
	}
	return n
}

// lock shows a lock as it is expected to be by now: age is how old what is known of it is.
func (s *Server) lock(l *survey.Lock, past *history, age time.Duration) lockView {
	hash := fnv.New64a()
	hash.Write([]byte(l.Name))
	v := lockView{
		ID: fmt.Sprintf("lock-%x", hash.Sum64()), Name: display.Clipped(l.Name, maxText), Query: query{Name: l.Name}.Link(),
		Who: display.Clipped(l.Metadata, maxText), Token: display.Clipped(l.Token, maxToken), Fence: l.Fence, Left: left(l.TTL, age), On: l.On, Of: len(s.Servers),
		Unlockable: s.AllowUnlock && !l.Other,
	}
	v.State, v.Text = stateOf(l)
	switch {
	case l.Empty:
		v.Token = tokenText("", maxToken)
	case display.Several(l.Kind) && l.Held():
		v.Who = display.Nouns(l.Kind)
	}
	sight := past.last[l.Name]
	if sight == nil || !l.Held() {
		return v
	}
	if sight.longest > 0 && l.TTL != redlock.NoLimit {
		v.Share = int(100 * max(0, l.TTL-age) / sight.longest)
	}
	if held := past.lastAt.Sub(sight.since); held >= time.Second || !sight.atLeast {
		v.Held, v.AtLeast = remaining(max(held, 1)), sight.atLeast
	}
	return v
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
func (s *Server) about(name string, snap *snapshot, past *history, age time.Duration) *lockView {
	l := &survey.Lock{Name: name}
	snap.Listing.Judge(l)
	i, found := slices.BinarySearchFunc(snap.Listing.Locks, name, func(l survey.Lock, name string) int { return cmp.Compare(l.Name, name) })
	if found {
		l = &snap.Listing.Locks[i]
	}
	v := s.lock(l, past, age)
	if l.Token != "" {
		v.Token = display.Clipped(l.Token, maxText)
	}
	if !found {
		v.Left, v.Unlockable = "", false
		switch {
		case snap.Listing.Truncated:
			v.State, v.Text = stateUnknown, "unknown: not among those that were listed"
		case l.Verdict == redlock.VerdictNobody:
			v.State = stateFree
		default:
			v.Text = "unknown: too few nodes answer"
		}
	}
	for i, report := range snap.Listing.Nodes {
		h := holding{Addr: display.Clipped(report.Addr, maxText), State: stateFree, Text: "nothing"}
		if report.Err != nil {
			h.State, h.Text = stateUnknown, "not known: "+errorText(report.Err)
		}
		for _, view := range l.Views {
			if view.Node == i {
				h.State, h.Text, h.Left = stateSplit, "a token", left(view.TTL, age)
				h.Token, h.Fence = tokenText(view.Token, maxText), view.Fence
				switch {
				case view.Other:
					h.State, h.Text, h.Token = stateOther, "data of another program", ""
				case display.Several(view.Kind):
					h.Text, h.Token = display.Nouns(view.Kind), ""
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
			}
		}
		v.Nodes = append(v.Nodes, h)
	}
	v.Changes = timeline(past, name)
	return &v
}

// timeline returns what has happened to a name, the newest first, and when nobody watched.
func timeline(past *history, name string) []changeView {
	type row struct {
		at time.Time
		changeView
	}
	rows := []row{{past.Began, changeView{Clock: clock(past.Began), State: "note", Text: "watched from here on"}}}
	for _, e := range past.of(name) {
		c := change(e)
		c.Name = "" // the page is about it
		rows = append(rows, row{e.At, c})
	}
	for _, g := range past.gaps {
		text := fmt.Sprintf("not watched from %s to %s, as no page was open", clock(g.From), clock(g.To))
		if g.Asked {
			text = fmt.Sprintf("not known from %s to %s, as too few nodes answered", clock(g.From), clock(g.To))
		}
		rows = append(rows, row{g.From, changeView{Clock: clock(g.From), State: "note", Text: text}})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.at.Compare(b.at) })
	var views []changeView
	for _, r := range slices.Backward(rows) {
		views = append(views, r.changeView)
	}
	return views
}

func change(e event) changeView {
	return changeView{
		Clock: clock(e.At), Date: e.At.Format(time.RFC3339), State: strings.ReplaceAll(e.What, " ", "-"), Text: e.What,
		Name: display.Clipped(e.Name, maxText), Query: query{Name: e.Name}.Link(),
		Who: display.Clipped(e.Metadata, maxText), Token: display.Clipped(e.Token, maxToken), Was: display.Clipped(e.Was, maxToken),
	}
}

// examine shows what the doctor has found.
func examine(e examination) examinationView {
	v := examinationView{Running: e.Running, Done: !e.At.IsZero(), Fault: errorText(e.Err)}
	if v.Done {
		v.At = clock(e.At)
	}
	if e.Report == nil {
		return v
	}
	v.Checks, v.Unexamined, v.Findings = len(e.Report.Checks), len(e.Report.Unexamined), e.Report.Groups()
	return v
}
