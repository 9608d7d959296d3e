package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Observation is what an observation of the key on one node has shown.
type Observation struct {
	Answered bool // false means that the node has not answered, and nothing is known
	Exists   bool
	Token    string
	Owner    string        // the process that holds it; "" means that the token does not show it
	TTL      time.Duration // that is left, unless NoTTL; 0 of data that has none
	NoTTL    bool
	// Foreign means that what is held cannot be a lock: it is somebody's data, which nobody deletes, and ends by its TTL if it has one. There
	// is no token, and no NoTTL.
	Foreign bool
	Tracked bool // the node pushes the next change
}

// observation is what the reply to an observation shows of a key.
func observation(f form.Form, reply *wire.Reply) Observation {
	o := f.Shows(reply)
	s := Observation{Answered: true, Tracked: reply.Tracked}
	switch o.Answer {
	case quorum.Yes:
		s.Exists, s.Token, s.Owner = true, o.Token, token.Owner(o.Token)
		s.TTL, s.NoTTL = o.TTL, o.TTL == wire.NoTTL
		if s.NoTTL { // it is deleted by its whole value
			s.Token = o.Value
		}
	case quorum.No:
	default:
		// Any other error goes away, or is found out by a round.
		s.Foreign, s.TTL = o.Foreign, o.TTL
		s.Answered, s.Exists, s.Tracked = s.Foreign, s.Foreign, s.Foreign && s.Tracked
	}
	return s
}

// nodeState is what is known of the key on one node.
type nodeState struct {
	Observation
	toObserve bool      // it has to be observed
	observing bool      // an observation is under way, or the deletion of a key without a TTL
	askedAt   time.Time // when the last observation was begun
	changed   bool      // the key has changed since it was observed
	ends      time.Time // when the TTL is over; zero means that none is known
	stranger  string    // the token of a client of another library that was observed last
	noTTLFrom time.Time // the key has been the same, without a TTL, since then; zero means that it was not
}

// forget drops what is known, except what identifies a key without a TTL and who held it. An observation that is under way
// stays so: its answer is newer than any change that was pushed before it.
func (n *nodeState) forget() {
	known := Observation{Token: n.Token, NoTTL: n.NoTTL}
	*n = nodeState{observing: n.observing, stranger: n.stranger, noTTLFrom: n.noTTLFrom, Observation: known}
}

// untracked records that the key may have changed unnoticed. What is the same later need not have been so all the time.
func (n *nodeState) untracked() {
	n.Tracked, n.noTTLFrom = false, time.Time{}
	n.changed = n.changed || n.Foreign
}

// freed records that the key has been deleted.
func (n *nodeState) freed() {
	*n = nodeState{observing: n.observing, stranger: n.stranger, Observation: Observation{Answered: true}}
}

// update takes in an observation. It reports whether a client of another library holds the key that another one of them
// held before.
func (n *nodeState) update(now time.Time, o Observation) (anotherStranger bool) {
	before := *n
	*n = nodeState{Observation: o, stranger: before.stranger, askedAt: before.askedAt}
	switch {
	case !o.Answered:
		n.Token, n.noTTLFrom = before.Token, before.noTTLFrom
	case !o.Exists || o.stays():
	case o.NoTTL:
		n.noTTLFrom = now
		if !before.noTTLFrom.IsZero() && before.Token == o.Token {
			n.noTTLFrom = before.noTTLFrom
		}
	default:
		n.ends = now.Add(o.TTL).Add(time.Millisecond)             // PTTL rounds down to whole milliseconds
		if o.Owner == "" && !o.Foreign && !form.IsMark(o.Token) { // a mark is nobody's
			n.stranger = o.Token
		}
	}
	return before.stranger != "" && n.stranger != before.stranger
}

// hasNoTTL reports whether the key has been seen without a TTL, and has not changed since.
func (n *nodeState) hasNoTTL() bool { return !n.noTTLFrom.IsZero() }

// healable reports whether the key is seen without a TTL now.
func (n *nodeState) healable() bool { return n.hasNoTTL() && n.NoTTL && n.Answered && !n.changed }

// stays reports whether the key has been seen to be somebody's data that does not end by itself.
func (s *Observation) stays() bool { return s.Foreign && s.TTL == 0 }

// isForeign reports whether it stays, and nothing newer is awaited.
func (n *nodeState) isForeign() bool { return n.stays() && !n.changed && !n.toObserve && !n.observing }

// blind reports whether no answer and no push will tell what the node holds.
func (n *nodeState) blind() bool { return !n.Tracked && !n.toObserve && !n.observing }

// free reports whether the node does not hold the key, as far as is known. Redis may report an expiry late or never.
func (n *nodeState) free(now time.Time) bool {
	if n.Exists {
		return !n.ends.IsZero() && !now.Before(n.ends)
	}
	return n.Answered && !n.changed
}
