package quorum

// A lock may have one of a number of slots. A node gives a slot to one token at a time, and answers with the number of
// the slot. A round is won when a majority has granted the same slot. So two locks that have had the same slot have a
// node in common. It gave the slot to the second lock after the lease of the first had ended there.
//
// It would not do to count the locks that each node has granted. Three nodes with two slots each may hold the tokens a
// and b, b and c, and c and a. Then they would have granted three locks.
//
// A node that has granted another slot than the majority is asked to take that back ([Raise]), even if its answer comes
// after the outcome.

// BeginSlots begins a round like Begin, for a lock that has a slot.
func (a *Acquire) BeginSlots(n int, grant Grant) *Acquire {
	a.Begin(n, grant)
	a.slots = true
	return a
}

// Slots reports whether the round is for a slot.
func (a *Acquire) Slots() bool { return a.slots }

// most returns how many nodes have granted the slot that was granted most often.
func (a *Acquire) most() (most int) {
	for i := range a.ballots {
		if number := a.ballots[i].number; number > 0 {
			most = max(most, a.same(number))
		}
	}
	return most
}

// Furthest returns the furthest slot that a node has granted, if the nodes looked for a free slot from start on, and
// after the last slot from the first on. slots is how many there are, and start counts from 0. Furthest returns 0 if no
// node has granted a slot.
func (a *Acquire) Furthest(start, slots uint64) (furthest uint64) {
	way := func(number uint64) uint64 { return (number - 1 + slots - start) % slots }
	for i := range a.ballots {
		if number := a.ballots[i].number; number > 0 && (furthest == 0 || way(number) > way(furthest)) {
			furthest = number
		}
	}
	return furthest
}
