package quorum

import "time"

// KeyState is what an observation of the key on one node has shown.
type KeyState struct {
	Answered bool // false means that the node has not answered, and nothing is known
	Held     bool
	Token    string
	Owner    string        // the process that holds it; "" means that the token does not show it
	TTL      time.Duration // that is left, unless NoTTL
	NoTTL    bool
	Tracked  bool // the node pushes the next change
}

// LostKey is a key without a TTL that its owner has left on a node. It is to be deleted if it still holds the token and
// has no TTL.
type LostKey struct {
	Node  int
	Token string
}

// nodeState is what is known of the key on one node.
type nodeState struct {
	KeyState
	toObserve bool      // it has to be observed
	observing bool      // an observation is under way, or the deletion of a key without a TTL
	changed   bool      // the key has changed since it was observed
	ends      time.Time // when the TTL is over
	noTTLFrom time.Time // the key has been the same, without a TTL, since then; zero means that it was not
}

// forget drops what is known, except what identifies a key without a TTL. An observation that is under way stays so: its
// answer is newer than any change that was pushed before it.
func (n *nodeState) forget() {
	*n = nodeState{observing: n.observing, noTTLFrom: n.noTTLFrom, KeyState: KeyState{Token: n.Token, NoTTL: n.NoTTL}}
}

// freed takes in that the key has been deleted.
func (n *nodeState) freed() {
	*n = nodeState{observing: n.observing, KeyState: KeyState{Answered: true}}
}

// update takes in an observation.
func (n *nodeState) update(now time.Time, seen KeyState) {
	before := *n
	*n = nodeState{KeyState: seen}
	if !seen.Answered {
		n.Token, n.noTTLFrom = before.Token, before.noTTLFrom
		return
	}
	if seen.Held {
		n.ends = now.Add(seen.TTL + time.Millisecond) // PTTL rounds down to whole milliseconds
	}
	if seen.NoTTL {
		n.noTTLFrom = now
		if !before.noTTLFrom.IsZero() && before.Token == seen.Token {
			n.noTTLFrom = before.noTTLFrom
		}
	}
}

// free reports whether the node does not hold the key, as far as is known. Redis may report an expiry late or never.
func (n *nodeState) free(now time.Time) bool {
	if n.Held {
		return !n.NoTTL && !now.Before(n.ends)
	}
	return n.Answered && !n.changed
}
