package quorum

import "slices"

// If an extension is tracked, a node pushes when the key of the lock changes on it before the next extension. A push is
// a hint, which leads to an observation of the key. The lock is lost when the nodes that may still hold the key are no
// majority. A node counts as one of them while nothing is known of it.

// An extension gives the key back to a node that has lost it. So a lock that is renewed is not lost to one node after
// the other. Another holder may have had the lock meanwhile, for as long as a majority had lost the key. So the node
// counts again when a majority has held the key without a break until after the node got it back. That is shown when an
// extension is confirmed that began after the node was known to hold the key again. The same goes for a node that holds
// the key but has not said yes to the acquire in time. The key may have got there after such a loss.

// Pushes come in order with the answers of a node. So a change that is pushed while an answer is outstanding happened
// before the state that this answer shows. But an answer that was not in time may come late or never. Therefore a push
// stands until an answer that came behind it shows the key. That is the outstanding answer, even if it is late, or the
// answer to the next observation or extension.

// watched is the knowledge of the key of a lock on one node.
type watched struct {
	asked int32 // how many extensions and observations are under way
	// given is the number of the first extension that began after the node was known to hold the key again. It is 0 if
	// that is not known.
	given  int32
	seen   int8 // how many observations there were since the last extension or the last connection
	known  bool // an extension or observation has shown the key
	gone   bool // the node does not hold the token, or may not have held it all the time
	pushed bool // the key may have changed since an answer last showed it
}

// maxObservations is how many times a key is observed on a node between two extensions on one connection, at most. A
// server whose table of tracked keys is full pushes one key for each that is observed.
const maxObservations = 4

// extending records that an extension begins, which every node answers. It returns the number of the extension.
func (l *Lease) extending() int32 {
	for i := range l.watch() {
		l.keys[i].asked++
		l.keys[i].seen = 0
	}
	l.extensions++
	return l.extensions
}

// confirmed records that a majority said yes to the extension with this number. Their yes means that they have held the
// key all the time.
func (l *Lease) confirmed(number int32) {
	for i := range l.keys {
		if k := &l.keys[i]; 0 < k.given && k.given <= number {
			k.gone = false
		}
	}
}

// counted returns the answer that an answer counts as. A yes of a node that may not have held the key all the time is
// no yes, but Recreated.
func (l *Lease) counted(node int, answer Answer) Answer {
	if answer == Yes && l.forgotten(node) {
		return Recreated
	}
	return answer
}

// forgotten reports whether a node may not have held the key all the time. Until another answer has shown the key, the
// answer to the acquire decides, which comes before all others.
func (l *Lease) forgotten(node int) bool {
	if l.keys != nil && l.keys[node].known {
		return l.keys[node].gone
	}
	return l.votes != nil && !l.votes.Holds(node)
}

// uncounted reports whether some node holds the key, but counts only after another extension is confirmed.
func (l *Lease) uncounted() bool {
	return slices.ContainsFunc(l.keys, func(k watched) bool { return k.given > 0 && k.gone })
}

// watch returns the knowledge of the key on each node. The first call makes it.
func (l *Lease) watch() []watched {
	if l.keys == nil {
		l.keys = make([]watched, l.Nodes())
	}
	return l.keys
}

// Invalidated records the push that the key may have changed on a node. It reports whether the key is to be observed
// there. The answer is for [Lease.Observed].
func (l *Lease) Invalidated(clock Clock, node int) bool {
	l.watch()[node].pushed = true
	return l.observe(clock, node)
}

// Untracked records that a node may not track the key, and reports whether the key is to be observed there. Unlike
// [Lease.Invalidated] it does not wait for an answer that is under way, because the key may change unnoticed after
// that.
func (l *Lease) Untracked(clock Clock, node int) bool {
	l.watch()[node].pushed = true
	return l.begins(clock, node)
}

// TrackingLost records that the connection to a node has ended. Observations on it do not count for the next
// connection.
func (l *Lease) TrackingLost(node int) { l.watch()[node].seen = 0 }

// observe begins an observation of a key that may have changed, unless an answer that may show it is under way. It
// reports whether one begins.
func (l *Lease) observe(clock Clock, node int) bool {
	k := &l.keys[node]
	return k.pushed && k.asked == 0 && l.begins(clock, node)
}

// doubted reports whether too many keys for a majority of the others may have changed, and were not observed since.
func (l *Lease) doubted() bool {
	held := l.Nodes()
	for _, k := range l.keys {
		if k.gone || k.pushed {
			held--
		}
	}
	return Majority(l.Nodes()) > held
}

// begins begins an observation of a key, unless there were too many observations of it, or the lease has ended.
func (l *Lease) begins(clock Clock, node int) bool {
	k := &l.keys[node]
	if k.seen == maxObservations || l.At(clock.Now()) != NotEnded {
		return false
	}
	k.seen++
	k.asked++
	return true
}

// Observed records the answer of a node to an observation. No means that the node does not hold the token. If the nodes
// that may hold it are no majority, the lease is lost.
func (l *Lease) Observed(clock Clock, node int, answer Answer) {
	l.keys[node].asked--
	l.shown(clock, node, answer)
}

// Late records an answer that comes after Observed has recorded that there was none (Unknown). again means that the key
// is to be observed once more, as after Invalidated.
func (l *Lease) Late(clock Clock, node int, answer Answer) (again bool) {
	l.shown(clock, node, answer)
	return l.observe(clock, node)
}

// shown records the key that an answer shows, if it shows any.
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
		l.End(clock.Now(), Gone)
	}
}
