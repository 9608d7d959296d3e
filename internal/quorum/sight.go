package quorum

import "time"

// Sight is what a look at a node has shown.
type Sight struct {
	Answered bool // else nothing is known
	Held     bool
	Token    string
	Owner    string        // who it is that holds it, if that can be told from the token
	TTL      time.Duration // that is left, if it has one
	NoTTL    bool
	Watched  bool // a change will be told
}

type sight struct {
	Sight
	looking bool
	healing bool
	changed bool      // a change has been told since the last look
	stale   bool      // a change has been told during the look that is under way
	ends    time.Time // of the TTL
	since   time.Time // when it was first seen like this, without any TTL
}

func (s *sight) free() bool { return s.Answered && !s.Held }

// becomes replaces what is known. The answer to a look that is under way is old by then.
func (s *sight) becomes(known sight) {
	known.looking, known.stale = s.looking, s.looking
	*s = known
}

// unknown forgets what was seen, but for what a key without a TTL is recognised by.
func (s *sight) unknown() {
	s.becomes(sight{since: s.since, Sight: Sight{Token: s.Token, NoTTL: s.NoTTL}})
}

// holder returns the token that a majority holds.
func (w *wait) holder() string {
	for i := range w.sights {
		n := 0
		for j := range w.sights {
			if s := &w.sights[j]; s.Held && s.Token == w.sights[i].Token {
				n++
			}
		}
		if n >= Majority(len(w.sights)) {
			return w.sights[i].Token
		}
	}
	return ""
}

// guarded counts the nodes that will not let go without a word: what one of them tells counts for all that
// hold the same. Where the time of a key is over, that it goes may be told late or not at all.
func (w *wait) guarded(now time.Time) (n int) {
	for i := range w.sights {
		for j := range w.sights {
			s, o := &w.sights[i], &w.sights[j]
			if s.Held && o.Held && o.Watched && o.Token == s.Token && (o.NoTTL || now.Before(o.ends)) {
				n++
				break
			}
		}
	}
	return n
}
