package web

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/redlock"
)

// What has happened to a lock between one listing and the next.
const (
	taken    = "taken"
	handed   = "changed hands"
	freed    = "freed"
	expired  = "expired"
	ended    = "ended" // freed or expired, which of them was not seen
	split    = "no majority"
	regained = "majority again"
)

const (
	maxEvents = 50   // of a name, and bursts of all names together
	maxPasts  = 1000 // names with events
	maxGaps   = 20

	// splitAfter is how many listings in a row have to find no majority: one may have come in the middle of a round.
	splitAfter = 2
)

// event is a change of a lock.
type event struct {
	At              time.Time
	Name, What      string
	Token, Metadata string // of the holder; of the last one if there is none any more
	Was             string // the token of the holder before, if the lock changed hands
	Found           bool   // it happened before, when nobody watched, or when it could not be seen
}

// gap is a time in which nothing was recorded: nobody looked at the page, or too few nodes answered.
type gap struct {
	From, To time.Time
	Asked    bool // the nodes were asked meanwhile
}

// history records how locks change from one listing to the next. One goroutine may use it at a time.
type history struct {
	Began     time.Time
	gaps      []gap
	last      map[string]*sight // as of the last listing; nil before the first
	lastAt    time.Time
	askedAt   time.Time                // when the nodes were asked last
	failing   time.Time                // since when too few nodes answer; zero if the last listing counted
	complete  bool                     // the last listing had all names
	pasts     map[string]*list.Element // of *past, by name
	order     *list.List               // of the pasts, the last changed first
	recent    []burst                  // the newest last
	processes map[int]string           // of the servers, as they were known last
}

// sight is what the listings have found of one lock.
type sight struct {
	token, metadata string        // of the last holder; "" if there was none
	ttl, longest    time.Duration // as of the last listing with a verdict, and the longest of this holder, unless that is for ever
	at              time.Time     // of that listing
	without         int           // listings with a verdict in a row that have found no majority
	doubted         bool          // no listing has shown yet whether it is held
	since           time.Time     // the first listing that has found this holder
	atLeast         bool          // the lock may have been held before
	unseen          bool          // what happened before the next listing that finds it held may not have been seen
	vague           bool          // since the last listing with a verdict there was one without
	nodes           []int         // that held anything as of the last listing
	sharers         map[sharerKey]sighting
	partial         bool // not all sharers were seen by the last listing
}

// past is what has happened to one name.
type past struct {
	name   string
	events []event // the newest last
}

func newHistory() *history {
	return &history{pasts: map[string]*list.Element{}, order: list.New(), processes: map[int]string{}}
}

// record compares a listing with the last one. Only one that a majority has answered counts. A time longer than pause
// in which none did is a gap.
func (h *history) record(now, began time.Time, l *survey.Listing, pause time.Duration) {
	first, failed, counts := h.last == nil, !h.failing.IsZero(), l != nil && l.Answered() >= l.Need
	if !first {
		h.interrupt(began, counts, pause)
	}
	h.askedAt = now
	if !counts {
		return
	}
	if first {
		h.Began = now
	}
	unseen := first || began.Sub(h.lastAt) > pause   // what happened before may not have been seen
	watched := !unseen && !failed                    // all that happened since the last listing was within one pause of the poller
	complete := !first && h.complete && !l.Truncated // else who is missing may have been left out
	sights, room := make(map[string]*sight, len(l.Locks)), maxSightings
	for i := range l.Locks {
		lock := &l.Locks[i]
		if lock.Other {
			continue
		}
		s := h.last[lock.Name]
		if s == nil {
			s = &sight{doubted: !complete}
		}
		s.unseen = s.unseen || unseen || s.doubted
		e := s.compare(now, lock)
		e.Found = s.vague || !watched
		doubt := s.unseen || e.Found
		s.date(now, lock, e, doubt)
		room -= s.meet(now, lock, room, doubt)
		s.partial = s.partial || l.Answered() < len(l.Nodes)
		h.add(now, lock.Name, e)
		sights[lock.Name] = s
	}
	forgot := h.restarted(l)
	for name, s := range h.last {
		if sights[name] != nil || !complete {
			continue
		}
		hidden := s.hidden(l)
		if hidden && s.without >= splitAfter && len(sights) < MaxLocks {
			sights[name] = s // it is expected back with its nodes
			continue
		}
		hidden = hidden || slices.ContainsFunc(s.nodes, func(node int) bool { return forgot[node] })
		h.add(now, name, s.over(now, watched && s.at.Equal(h.lastAt), hidden))
	}
	h.last, h.lastAt, h.complete = sights, now, !l.Truncated
}

// restarted returns which servers are others than before, and may have forgotten locks.
func (h *history) restarted(l *survey.Listing) map[int]bool {
	which := map[int]bool{}
	for i, n := range l.Nodes {
		if n.Process != "" {
			which[i] = h.processes[i] != "" && h.processes[i] != n.Process
			h.processes[i] = n.Process
		}
	}
	return which
}

// interrupt notes the gaps that end with a listing: the time in which nobody looked, and if the listing counts, or nobody looked, the
// time in which too few nodes answered.
func (h *history) interrupt(began time.Time, counts bool, pause time.Duration) {
	from := h.askedAt
	if began.Sub(from) > pause {
		h.endFailing(from, pause)
		h.gap(gap{from, began, false})
		from = began
	}
	switch {
	case counts:
		h.endFailing(began, pause)
	case h.failing.IsZero():
		h.failing = from
	}
}

// endFailing notes that too few nodes have answered until now, if that was for longer than pause.
func (h *history) endFailing(now time.Time, pause time.Duration) {
	if !h.failing.IsZero() && now.Sub(h.failing) > pause {
		h.gap(gap{h.failing, now, true})
	}
	h.failing = time.Time{}
}

func (h *history) gap(g gap) { h.gaps = newest(append(h.gaps, g), maxGaps) }

// date notes from when on a lock is held as it is, and where. If in doubt, it may have been held so before.
func (s *sight) date(now time.Time, lock *survey.Lock, e event, doubt bool) {
	if lock.Held() && (s.unseen || slices.Contains([]string{taken, handed, regained}, e.What)) {
		s.since, s.atLeast, s.unseen = now, doubt, false
	}
	s.vague = lock.Verdict == redlock.VerdictUnknown
	s.nodes = s.nodes[:0]
	for _, v := range lock.Views {
		s.nodes = append(s.nodes, v.Node)
	}
}

// hidden reports whether a node that held something of the lock may hold it still, as it has not answered completely.
func (s *sight) hidden(l *survey.Listing) bool {
	return slices.ContainsFunc(s.nodes, func(node int) bool { return l.Nodes[node].Err != nil })
}

// compare returns what has happened since the last listing that had a verdict. A listing without one shows nothing: what the
// missing nodes hold may have been there all the time.
func (s *sight) compare(now time.Time, lock *survey.Lock) (e event) {
	if lock.Verdict == redlock.VerdictUnknown {
		return e
	}
	doubted := s.doubted
	s.ttl, s.at, s.doubted = lock.TTL, now, false
	if !lock.Held() {
		if s.without++; s.without == splitAfter {
			e = event{What: split, Token: s.token, Metadata: s.metadata}
		}
		return e
	}
	held := identity(lock.Kind, lock.Token)
	switch {
	case doubted: // it may have been held before
	case s.token == "":
		e.What = taken
	case s.token != held:
		e.What, e.Was = handed, s.token
	case s.without >= splitAfter:
		e.What = regained
	}
	e.Token, e.Metadata = held, lock.Metadata
	if s.token != held {
		s.longest = 0
	}
	if lock.TTL != redlock.NoLimit {
		s.longest = max(s.longest, lock.TTL)
	}
	s.token, s.metadata, s.without = held, lock.Metadata, 0
	return e
}

// identity returns what tells a holder from the next one: the token, or for sharers, which come and go, what they are called.
func identity(kind redlock.Kind, token string) string {
	if display.Several(kind) {
		return display.Nouns(kind)
	}
	return cmp.Or(token, tokenText("", maxToken))
}

// over returns what has happened to a lock of which no node shows anything, while a majority answers. Watched
// means that the last listing before had a verdict, and hidden that nodes with parts of the lock are away, or were restarted.
func (s *sight) over(now time.Time, watched, hidden bool) event {
	e := event{What: freed, Token: s.token, Metadata: s.metadata, Found: !watched}
	late := s.ttl != redlock.NoLimit && s.ttl <= now.Sub(s.at)
	switch {
	case s.token == "" && s.without < splitAfter:
		e.What = "" // nobody is known to have had it
	case hidden || late && !watched:
		e.What = ended
	case late:
		e.What = expired
	}
	return e
}

func (h *history) add(now time.Time, name string, e event) {
	if e.What == "" {
		return
	}
	e.At, e.Name = now, name
	h.note(e)
	entry := h.pasts[name]
	if entry == nil {
		entry = h.order.PushFront(&past{name: name})
		h.pasts[name] = entry
	}
	h.order.MoveToFront(entry)
	p := entry.Value.(*past)
	p.events = newest(append(p.events, e), maxEvents)
	if h.order.Len() > maxPasts {
		delete(h.pasts, h.order.Remove(h.order.Back()).(*past).name)
	}
}

// of returns what has happened to a name, the newest last.
func (h *history) of(name string) []event {
	if entry := h.pasts[name]; entry != nil {
		return entry.Value.(*past).events
	}
	return nil
}

// newest returns the last n of a list, in memory of its own once it is full: others may read what it was.
func newest[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	return append(make([]T, 0, n+1), all[len(all)-n:]...)
}
