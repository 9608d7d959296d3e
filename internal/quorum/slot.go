package quorum

// A lock may have one of a number of slots. A node gives a slot to one token at a time, and answers with its number. A round is won when a
// majority has granted the same slot. So two locks in one slot have a node in common, which gave it to the second after the lease of the
// first had ended there. To count the slots that each node has given would not do. Three nodes with two slots each, which hold the
// tokens a and b, b and c, and c and a, would have given three.
//
// A node that has granted another slot than the majority is asked to take that back ([Raise]), whenever it has.

// BeginSlots is Begin for a lock that has a slot.
func (a *Acquire) BeginSlots(n int, grant Grant) *Acquire {
	a.Begin(n, grant)
	a.slots = true
	return a
}

// Slots reports whether the round is for a slot.
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

// Split reports whether a round for a slot is lost though a majority of the nodes has granted one: they have not granted the same. Another
// round may win.
func (a *Acquire) Split() bool { return a.slots && a.token == 0 && a.majority() }
