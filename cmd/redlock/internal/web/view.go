package web

import (
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

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
	Pager       pager  // where among the locks that the filter shows
	Matching    int    // locks that the filter lets through
	Wrong       int    // of them; they come first
	Total       int    // locks
	Truncated   bool   // there are more than were listed
	ListFault   string // why the locks cannot be judged
	Changes     []changeView
	Examination examinationView
	Lock        *lockView // the one that the page is about; nil if it is about all
	Unlock      *unlockView
	Obstacle    string // why no lock can be freed
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

// view shows what the poller knows.
func (s *Server) view(q query, snap *snapshot, now time.Time) *view {
	v := s.base(q)
	if snap == nil {
		v.Examination = examine(s.examiner.result(), nil, now)
		return v
	}
	v.Examination = examine(s.examiner.result(), snap.Nodes, now)
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
		if n.State == "quarantined" {
			v.Quarantined++
		}
		if snap.Listing != nil {
			report := snap.Listing.Nodes[i]
			n.Keys = keys(&report)
			if report.Err != nil && snap.Nodes[i].Err == nil {
				n.tell("not all of its locks are listed: " + errorText(report.Err))
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
	past := s.poller.history
	seen := &scene{s, snap, past, now.Sub(snap.At)}
	v.Total, v.Truncated = len(snap.Listing.Locks), snap.Listing.Truncated
	if s.AllowUnlock {
		v.Obstacle = obstacle(snap.answering(), 0, len(snap.Listing.Nodes), snap.Listing.Need)
	}
	if q.Name != "" {
		v.Lock = seen.about(q.Name)
		return v
	}
	shown, wrong := q.apply(snap.Listing.Locks, past, s.Prefix != "")
	v.Matching, v.Wrong = len(shown), wrong
	pager, from, to := turn(q, len(shown))
	v.Pager, v.Query = pager, pager.Query
	for _, l := range shown[from:to] {
		v.Locks = append(v.Locks, seen.lock(l.Lock))
	}
	v.Changes = lately(past)
	return v
}

// base returns what every page has.
func (s *Server) base(q query) *view {
	return &view{
		Process: s.process, Secret: s.secret, AllowUnlock: s.AllowUnlock, Prefix: display.Clipped(s.Prefix, maxText), Query: q,
		Refresh: max(5, int(s.Interval/time.Second)), Need: len(s.Servers)/2 + 1,
	}
}
