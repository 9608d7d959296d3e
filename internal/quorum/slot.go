package quorum

// A permit is one of a number of slots, on a majority of the nodes. A node gives a slot to one token at a time, and with it its number. A round
// is won when a majority has granted the same slot: two permits of one slot have a node in common, which gave it to the second after the
// lease of the first had ended there. To count the permits of each node would not do. Of three nodes and two permits, those that hold
// the tokens a and b, b and c, and c and a have given three.
//
// A node that has granted another slot than the majority is asked to take that back ([Raise]), whenever it has.

// BeginSlots is Begin for a permit.
func (a *Acquire) BeginSlots(n int, grant Grant) *Acquire {
	a.Begin(n, grant)
	a.slots = true
	return a
}

// Slots reports whether the round is for a permit.
func (a *Acquire) Slots() bool { return a.slots }

// most returns how many nodes have granted the slot that most of them have granted.
func (a *Acquire) most() (most int) {
	for i := range a.ballots {
		if number := a.ballots[i].number; number > 0 {
			most = max(most, a.same(number))
		}
	}
	return most
}

// Split reports whether a round for a permit is lost though a majority of the nodes has granted one: they have not granted the same. Another
// round may win.
func (a *Acquire) Split() bool { return a.slots && a.token == 0 && a.majority() }
