package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Observation is the result of an observation of the key on one node.
type Observation struct {
	Answered bool // false means that the node has not answered, and nothing is known
	Exists   bool
	Token    string
	Owner    string        // the owner part of the Token, or "" if the token does not show it
	TTL      time.Duration // the time that is left, unless NoTTL; 0 for Foreign data that has no TTL
	NoTTL    bool
	// Foreign means that the key holds no lock, but somebody's data. Nobody deletes such data, and it ends by its TTL if
	// it has one. Token is empty then, and NoTTL is false.
	Foreign bool
	Over    bool // more share the key than the head has slots
	Tracked bool // the node pushes the next change
}

// observation returns the Observation that the reply to an observation shows.
func observation(f form.Form, reply *wire.Reply) Observation {
	o := f.Shows(reply)
	s := Observation{Answered: true, Tracked: reply.Tracked}
	switch o.Answer {
	case quorum.Yes:
		s.Exists, s.Token, s.Owner = true, o.Token, token.Owner(o.Token)
		s.TTL, s.NoTTL, s.Over = o.TTL, o.TTL == wire.NoTTL, o.Over
		if s.NoTTL { // such a key is deleted by its whole value
			s.Token = o.Value
		}
	case quorum.No:
	default:
		// Any error but the one about somebody's data goes away, or a round finds it out.
		s.Foreign, s.TTL = o.Foreign, o.TTL
		s.Answered, s.Exists, s.Tracked = s.Foreign, s.Foreign, s.Foreign && s.Tracked
	}
	return s
}

// nodeState is the knowledge of the key on one node.
type nodeState struct {
	Observation
	toObserve bool      // an observation is planned
	observing bool      // an observation is under way, or the deletion of a key without a TTL
	askedAt   time.Time // when the last observation began
	changed   bool      // the key has changed since its last observation
	ends      time.Time // when the TTL is over, or zero if none is known
	stranger  string    // the token of the client of another library that was observed last
	noTTLFrom time.Time // since when the key has been the same, without a TTL, or zero if it has not
}

// forget drops the knowledge of the key. It keeps the identity of a key without a TTL, and the stranger that held the
// key last. An observation that is under way stays so: its answer is newer than any change that was pushed before it.
func (n *nodeState) forget() {
	known := Observation{Token: n.Token, NoTTL: n.NoTTL}
	*n = nodeState{observing: n.observing, stranger: n.stranger, noTTLFrom: n.noTTLFrom, Observation: known}
}

// untracked records that the key may have changed unnoticed. If the key is the same later, it need not have been so all
// the time.
func (n *nodeState) untracked() {
	n.Tracked, n.noTTLFrom = false, time.Time{}
	n.changed = n.changed || n.Foreign
}

// freed records that the key has been deleted.
func (n *nodeState) freed() {
	*n = nodeState{observing: n.observing, stranger: n.stranger, Observation: Observation{Answered: true}}
}

// update records an observation. It reports whether one client of another library holds the key now, and another one
// held it before.
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
		if o.Owner == "" && !o.Foreign && !form.IsMark(o.Token) { // a mark belongs to nobody
			n.stranger = o.Token
		}
	}
	return before.stranger != "" && n.stranger != before.stranger
}

// hasNoTTL reports whether the key was seen without a TTL, and has not changed since.
func (n *nodeState) hasNoTTL() bool { return !n.noTTLFrom.IsZero() }

// healable reports whether the last observation has shown a key without a TTL, and no change was pushed since.
func (n *nodeState) healable() bool { return n.hasNoTTL() && n.NoTTL && n.Answered && !n.changed }

// stays reports whether the key was seen to hold somebody's data that does not end by itself.
func (s *Observation) stays() bool { return s.Foreign && s.TTL == 0 }

// isForeign reports whether the key holds data that stays, and no newer observation is awaited.
func (n *nodeState) isForeign() bool { return n.stays() && !n.changed && !n.toObserve && !n.observing }

// blind reports whether no answer and no push will show the key of the node.
func (n *nodeState) blind() bool { return !n.Tracked && !n.toObserve && !n.observing }

// free reports whether the node is known not to hold the key. A key whose TTL is over counts as gone, because Redis may
// report an expiry late or never.
func (n *nodeState) free(now time.Time) bool {
	if n.Exists {
		return !n.ends.IsZero() && !now.Before(n.ends)
	}
	return n.Answered && !n.changed
}
