package quorum

import "slices"

// Between two extensions a node pushes when the key of a lock changes on it, if the extension before was tracked. A push
// is a hint: the key is observed, and the lock is lost when so many nodes have answered that they do not hold it that
// no majority is left. A node of which nothing is known counts as one that holds the key.

// An extension gives the key back to a node that has lost it, so that a lock which is renewed is not lost to one node after the
// other. Another may have had the lock meanwhile, for as long as a majority had lost it. So the node counts again when a majority
// has held the key without a break until after it was given back: when an extension is confirmed that began after that was known.
// The same goes for a node that holds the key and has not said yes to the acquire in time, which may have got there after such a loss.

// Pushes come in order with the answers of a node. So what is pushed while an answer is outstanding happened before what that
// answer shows; but an answer that was not in time may come late or never. Therefore a push stands until an answer that came
// behind it shows what the node holds: the outstanding one, the same late, or that of the next observation or extension.

// watched is what is known of the key of a lock on one node.
type watched struct {
	asked  int32 // extensions and observations that are under way
	given  int32 // the number of the first extension that began after it was known to hold it again; 0 if it is not known
	seen   int8  // observations since the last extension, or the last connection
	known  bool  // an extension or observation has shown something of it
	gone   bool  // the node does not hold the token, or may not have held it all the time
	pushed bool  // the key may have changed since an answer has shown it
}

// maxObservations is how many times a key is observed on a node between two extensions on one connection. A server whose table of
// tracked keys is full pushes one key for each that is observed.
const maxObservations = 4

// extending records that an extension begins, which every node answers. It returns its number.
func (l *Lease) extending() int32 {
	for i := range l.watch() {
		l.keys[i].asked++
		l.keys[i].seen = 0
	}
	l.extensions++
	return l.extensions
}

// confirmed records that a majority of the nodes has told an extension that they have held the key all the time.
func (l *Lease) confirmed(number int32) {
	for i := range l.keys {
		if k := &l.keys[i]; 0 < k.given && k.given <= number {
			k.gone = false
		}
	}
}

// counted returns what an answer counts as: the yes of a node that may not have held the key all the time is no yes.
func (l *Lease) counted(node int, answer Answer) Answer {
	if answer == Yes && l.forgotten(node) {
		return Recreated
	}
	return answer
}

// forgotten reports whether a node may not have held the key all the time. Its answer to the acquire comes before all others.
func (l *Lease) forgotten(node int) bool {
	if l.keys != nil && l.keys[node].known {
		return l.keys[node].gone
	}
	return l.votes != nil && !l.votes.Holds(node)
}

// uncounted reports whether a node holds the key but does not count before another extension is confirmed.
func (l *Lease) uncounted() bool {
	return slices.ContainsFunc(l.keys, func(k watched) bool { return k.given > 0 && k.gone })
}

func (l *Lease) watch() []watched {
	if l.keys == nil {
		l.keys = make([]watched, l.Nodes())
	}
	return l.keys
}

// Invalidated takes the push that the key may have changed on a node. It reports whether the key is to be observed there;
// the answer is for [Lease.Observed].
func (l *Lease) Invalidated(clock Clock, node int) bool {
	l.watch()[node].pushed = true
	return l.observe(clock, node)
}

// Untracked is [Lease.Invalidated] for a node that may not track the key: what an answer shows that is under way may change unnoticed.
func (l *Lease) Untracked(clock Clock, node int) bool {
	l.watch()[node].pushed = true
	return l.begins(clock, node)
}

// TrackingLost records that the connection to a node has ended. What was observed on it does not count for the next one.
func (l *Lease) TrackingLost(node int) { l.watch()[node].seen = 0 }

// observe begins an observation of a key that may have changed, if there can be one now.
func (l *Lease) observe(clock Clock, node int) bool {
	k := &l.keys[node]
	return k.pushed && k.asked == 0 && l.begins(clock, node)
}

// begins begins an observation of a key, unless it has been observed too often.
func (l *Lease) begins(clock Clock, node int) bool {
	k := &l.keys[node]
	if k.seen == maxObservations || l.At(clock.Now()) != NotEnded {
		return false
	}
	k.seen++
	k.asked++
	return true
}

// Observed takes the answer of a node to an observation: No means that it does not hold the token. If no majority is left that
// may hold it, the lease is lost.
func (l *Lease) Observed(clock Clock, node int, answer Answer) {
	l.keys[node].asked--
	l.shown(clock, node, answer)
}

// Late takes an answer that comes after Observed has taken its absence (Unknown). again means that the key is to be observed once
// more, as after Invalidated.
func (l *Lease) Late(clock Clock, node int, answer Answer) (again bool) {
	l.shown(clock, node, answer)
	return l.observe(clock, node)
}

// shown takes what an answer shows of the key, if anything.
func (l *Lease) shown(clock Clock, node int, answer Answer) {
	k := &l.keys[node]
	switch {
	case answer == No:
		k.gone, k.given = true, 0
	case answer == Recreated, answer == Yes && k.given == 0 && l.forgotten(node):
		k.gone, k.given = true, l.extensions+1
	case answer != Yes:
		return
	}
	k.known, k.pushed = true, false
	held, known := 0, 0
	for _, k := range l.keys {
		if !k.gone {
			held++
		}
		if k.known {
			known++
		}
	}
	if known == l.Nodes() {
		l.votes = nil
	}
	if held < Majority(l.Nodes()) {
		l.End(clock.Now(), Lost)
	}
}
