package quorum

// The fencing token of a round is a number that is higher than the token of every holder before.
//
// Each node has a counter, and every number that it grants is higher than its numbers before. The token is a number
// that a majority has granted. Or it is the highest number of a majority, if every node of that majority agrees on it.
// A node that granted a lower number agrees when it has raised its counter to the token. It does that only while it
// still holds exactly the value that it granted.
//
// If two rounds are won, they have a node in common. Its counter had reached the token of the first round before it
// granted to the second. The token of the second round is not below the number that this node granted. No clock has a
// part in this.

// Raise is the request to a node to put the fencing token of a round in the place of the lower number that it granted.
// In a round for a slot it is the request to take back a slot that is not that of the majority.
type Raise struct {
	Node           int
	Granted, Token uint64
}

// Granted records the yes of a node, with the number that the node granted.
func (a *Acquire) Granted(clock Clock, node int, number uint64, server string) Actions {
	if !a.count(node, Yes, server) {
		return Actions{}
	}
	var due []Raise
	if a.Answer(node) == Yes {
		due = a.granted(node, number)
	}
	actions := a.decide(clock)
	if (a.slots || !a.over) && !a.lost {
		actions.Raise = due
	}
	return actions
}

// granted finds the token. It returns the raises to the token that are due now: for all numbers if the token was just
// found, otherwise for this number only.
func (a *Acquire) granted(node int, number uint64) (due []Raise) {
	a.ballots[node].number = number
	known := a.token > 0
	switch {
	case known:
	case a.same(number) >= a.need():
		a.token = number
	case a.slots: // no slot takes the place of another
	case a.majority():
		a.token = a.Highest()
	}
	for i := range a.ballots {
		if n := a.ballots[i].number; n > 0 && a.token > 0 &&
			(n < a.token || a.slots && n > a.token) && (i == node || !known) {
			due = append(due, Raise{Node: i, Granted: n, Token: a.token})
		}
	}
	return due
}

// Raised records the answer of a node to a [Raise].
func (a *Acquire) Raised(clock Clock, node int, answer Answer) Actions {
	a.ballots[node].raised = answer
	return a.decide(clock)
}

// Agrees reports whether the yes of a node counts for the lock. Without fencing every yes counts, and also with fencing
// as long as the token is not known. Then the node must have granted the token, or raised its counter to it. A node
// that has granted a higher number does not agree. In a round for a slot, the node must have granted the slot of the
// round. open means that the counter may still be raised.
func (a *Acquire) Agrees(i int) (agrees, open bool) {
	b := &a.ballots[i]
	switch {
	case a.slots:
		return b.answer == Yes && b.number == a.token, false
	case b.answer != Yes || a.token == 0:
		return b.answer == Yes, false
	}
	return b.number == a.token || b.raised == Yes, b.number < a.token && b.raised == Pending
}

// Fence returns the fencing token or the slot of a round that is won. 0 means that it has none.
func (a *Acquire) Fence() uint64 { return a.token }

// Highest returns the highest number that a node has granted. 0 means that there is none.
func (a *Acquire) Highest() (number uint64) {
	for i := range a.ballots {
		number = max(number, a.ballots[i].number)
	}
	return number
}
