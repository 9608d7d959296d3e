package mutation

// repeatMutations weaken the rule by which of callers that try at the same instant one gets the lock.
var repeatMutations = []Mutation{
	{"no-repeat", "a round that may have been split is repeated",
		"internal/lock/repeat.go", "const maxRepeats = 4", "const maxRepeats = 0"},
	{"repeat-without-a-yes", "a round that no node has granted is final",
		"internal/quorum/acquire.go", "a.yes > 0 && (a.no > 0", "(a.no > 0"},
	{"repeat-without-a-no", "so is one that no node has refused",
		"internal/quorum/acquire.go", "a.yes > 0 && (a.no > 0 || a.slots) &&", "a.yes > 0 &&"},
	{"repeat-has-its-own-timeout", "a repeat begins within the node timeout of the first round",
		"internal/lock/repeat.go", "if r.until.IsZero() {", "if true {"},
	{"repeat-begins-late", "also if its pause lasts for too long",
		"internal/lock/repeat.go", "if err != nil || !r.rules.Clock.Now().Before(r.until) {", "if err != nil {"},
	{"repeat-outlasts-the-first", "a repeat ends when the first round had to end",
		"internal/lock/repeat.go", "r.until, r.ends = began.Add(r.rules.Timeout), began.Add(r.rules.Timeout)", "r.until, r.ends = began.Add(r.rules.Timeout), began.Add(2*r.rules.Timeout)"},
	{"token-of-the-round-before", "a repeat has a token of its own",
		"internal/lock/repeat.go", "return &Repeat{rules: r, token: token} }", "made, err := token(); return &Repeat{rules: r, token: func() (string, error) { return made, err }} }"},
	{"floor-not-carried", "a repeat asks for numbers above all that the lost rounds were granted",
		"internal/lock/repeat.go", "c.floor, c.slot = r.lost[i].floor, r.lost[i].slot", "c.slot = r.lost[i].slot"},
	{"start-of-a-repeat-at-random", "a repeat begins at the furthest slot that a node has granted",
		"internal/lock/repeat.go", "c.floor, c.slot = r.lost[i].floor, r.lost[i].slot", "c.floor = r.lost[i].floor"},
	{"start-at-the-highest-slot", "the furthest is so from where the nodes have begun, not from the first slot",
		"internal/quorum/slot.go", "return (number - 1 + slots - start) % slots", "return number + 0*(slots+start)"},
	{"repeat-ahead-of-its-release", "a repeat follows the releases of the round before",
		"internal/quorum/acquire.go", "return a.report(Actions{Release: a.nodes(a.MayHold), Observe: denied, AwaitCleanUp: true})",
		"_ = denied\n\t\treturn a.conclude(a.reason())"},
}
