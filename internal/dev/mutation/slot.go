package mutation

// slotMutations weaken what keeps slots apart, and what leaves none of them behind.
var slotMutations = []Mutation{
	{"slots-not-compared", "a lock with a slot is won if a majority has granted the same slot",
		"internal/quorum/fence.go", "return b.answer == Yes && b.number == a.token, false", "return b.answer == Yes, false"},
	{"over-anothers-slot", "an extension lets nobody in at another's slot",
		"internal/dev/sim/sharers.go", "v.slots.taken(slot, slot) > 0 {", "v.slots.taken(slot, slot) > 1 {"},
	{"one-slot-more", "a node gives as many locks as slots",
		"internal/dev/sim/sharers.go", "limit, start = whole(of[0]), whole(of[1])\n", "limit, start = 1+whole(of[0]), whole(of[1])\n"},
	{"same-slot-twice", "a node gives a slot to one at a time",
		"internal/dev/sim/sharers.go", "(start + i) % limit; z.taken(slot, slot) == 0 {", "(start + i) % limit; z.taken(slot, slot) < 2 {"},
	{"slots-without-mark", "without the mark nobody has a slot",
		"internal/dev/sim/sharers.go", "\t\tcase !v.marked:\n", "\t\tcase false:\n"},
	{"slot-of-a-lapsed-lock", "a lock whose lease is over leaves its slot",
		"internal/dev/sim/sharers.go", "v.slots.leave(gone...)", "v.slots.leave(gone[:0]...)"},
	{"other-slots-kept", "what nodes have granted beside the slot that was won is taken back",
		"internal/quorum/fence.go", "if (a.slots || !a.over) && !a.lost {", "if !a.slots && !a.over && !a.lost {"},
	{"other-slots-kept-later", "also if they grant it when the lock is won",
		"internal/quorum/fence.go", "if (a.slots || !a.over) && !a.lost {", "if !a.over && !a.lost {"},
	{"slot-released", "a lock is released at whatever slot it is",
		"internal/form/shared.go", "\ts.leave(c, ID{Key: id.Key, Token: id.Token})\n", "\ts.leave(c, id)\n"},
	{"slot-past-the-writer", "the next who waits for a slot that was given back passes by no writer",
		"internal/lock/share.go", "if q.state == trying && q.line.want().Kind.HasSlots() {", "if q.state == trying {"},
	{"end-of-a-slot-untold", "a slot that is given back changes the key, and the node says so",
		"internal/dev/sim/sharers.go", "\tcase v.slots != nil: // those who wait are woken\n", "\tcase v.slots != nil && need < 0:\n"},
	{"taken-back-once", "a slot that is taken back is so on the next connection if the one breaks before the answer",
		"internal/lock/round.go", "\t\traise.Redeliver = r.grant.TTL // if it cleans up, as a release does\n", ""},
}
