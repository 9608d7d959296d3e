package mutation

// permitMutations weaken what keeps permits apart, and what leaves none of them behind.
var permitMutations = []Mutation{
	{"slots-not-compared", "a permit is won if a majority has granted the same slot",
		"internal/quorum/fence.go", "return b.answer == Yes && b.number == a.token, false", "return b.answer == Yes, false"},
	{"over-anothers-slot", "an extension lets nobody in at another's slot",
		"internal/sim/sharers.go", "if v.slots.taken(slot, slot) > 0 {", "if v.slots.taken(slot, slot) > 1 {"},
	{"one-permit-more", "a node gives no more permits than there are",
		"internal/sim/sharers.go", "limit, start = whole(of[0]), whole(of[1]); ", "limit, start = 1+whole(of[0]), whole(of[1]); "},
	{"same-slot-twice", "a node gives a slot to one at a time",
		"internal/sim/sharers.go", "(start + i) % limit; z.taken(slot, slot) == 0 {", "(start + i) % limit; z.taken(slot, slot) < 2 {"},
	{"slots-without-mark", "without the mark nobody has a slot",
		"internal/sim/sharers.go", "if v.slots != nil && !v.marked {", "if v.slots != nil && !v.marked && v.marked {"},
	{"slot-of-a-lapsed-permit", "a permit whose lease is over leaves its slot",
		"internal/sim/sharers.go", "\tgone := v.who.gone(v.marked, v.now)\n", "\tgone := v.who.gone(v.marked, v.now)[:0]\n"},
	{"other-slots-kept", "what nodes have granted beside the slot that was won is taken back",
		"internal/quorum/fence.go", "if (a.slots || !a.over) && !a.lost {", "if !a.slots && !a.over && !a.lost {"},
	{"other-slots-kept-later", "also if they grant it when the permit is won",
		"internal/quorum/fence.go", "if (a.slots || !a.over) && !a.lost {", "if !a.over && !a.lost {"},
	{"slot-released", "a permit is released at whatever slot it is",
		"internal/form/shared.go", "\ts.leave(c, ID{Key: id.Key, Token: id.Token})\n", "\ts.leave(c, id)\n"},
	{"permit-past-the-writer", "the next who waits for a permit that was given back passes by no writer",
		"internal/lock/share.go", "if q.state == trying && q.line.want().Kind.HasSlots() {", "if q.state == trying {"},
	{"end-of-a-permit-untold", "a node says of each permit that is given back that it has changed the key",
		"internal/sim/sharers.go", "\tcase v.slots != nil: // those who wait are woken\n", "\tcase v.slots != nil && need < 0:\n"},
	{"taken-back-once", "a slot that is taken back is so on the next connection if the one breaks before the answer",
		"internal/lock/round.go", "\t\traise.Redeliver = r.grant.TTL // if it cleans up, as a release does\n", ""},
}
