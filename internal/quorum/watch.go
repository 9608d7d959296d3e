package quorum

// Between two extensions a node pushes when the key of a lock changes on it, if the extension before was tracked. A push
// is a hint: the key is observed, and the lock is lost when so many nodes have answered that they do not hold it that
// no majority is left. An extension gives the key back to a node that has lost it, so that a lock which is renewed is
// not lost to one node after the other. A node of which nothing is known counts as one that holds the key.

// watched is what is known of the key of a lock on one node.
type watched struct {
	asked int32 // extensions and observations without an answer: it will be newer than what is pushed before it
	seen  int8  // observations since the last extension
	gone  bool  // the node does not hold the token
}

// maxObservations is how many times a key is observed on a node between two extensions. A server whose table of tracked keys is
// full pushes one key for each that is observed.
const maxObservations = 4

// extending takes in that an extension begins, which every node answers.
func (l *Lease) extending() {
	for i := range l.watch() {
		l.keys[i].asked++
		l.keys[i].seen = 0
	}
}

func (l *Lease) watch() []watched {
	if l.keys == nil {
		l.keys = make([]watched, l.nodes)
	}
	return l.keys
}

// Invalidated takes the push that the key may have changed on a node. It reports whether the key is to be observed there;
// the answer is for [Lease.Observed].
func (l *Lease) Invalidated(clock Clock, node int) bool {
	k := &l.watch()[node]
	if k.asked > 0 || k.seen == maxObservations || l.At(clock.Now()) != Held {
		return false
	}
	k.seen++
	k.asked++
	return true
}

// Observed takes the answer of a node to an extension or an observation: No means that it does not hold the token. If no majority
// is left that may hold it, the lease is lost.
func (l *Lease) Observed(clock Clock, node int, answer Answer) {
	l.keys[node].asked--
	switch answer {
	case Yes, Recreated:
		l.keys[node].gone = false
	case No:
		l.keys[node].gone = true
	}
	held := 0
	for _, k := range l.keys {
		if !k.gone {
			held++
		}
	}
	if held < Majority(l.nodes) {
		l.End(clock.Now(), Lost)
	}
}
