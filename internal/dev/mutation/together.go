package mutation

// setMutations weaken what makes the locks of several names those of one caller, or of none.
var setMutations = []Mutation{
	{"set-takes-the-free", "a node takes all locks of a set, or none",
		"internal/dev/sim/keyspace.go", "\tif there != nil {\n", "\tif len(there) == len(keys) {\n"},
	{"free-are-taken", "a node that others have refused has not taken the locks that are free there",
		"internal/form/all.go", "{Answer: quorum.No, Err: ErrOthersHeld}", "{Answer: quorum.Yes}"},
	{"some-are-all", "who takes several locks has won all of them, or has none",
		"internal/lock/together.go", "return !slices.ContainsFunc(outcomes, func(o quorum.Outcome) bool { return o != quorum.Done })",
		"return slices.Contains(outcomes, quorum.Done)"},
	{"set-kept", "a lock that is won is given back if another of its set is not",
		"internal/lock/name.go", "if a.outcome != quorum.Done {", "if true {"},
	{"given-back-where-granted", "it is given back on every node that it may have reached",
		"internal/lock/name.go", "a.Nodes(), a.votes.MayHold)", "a.Nodes(), a.votes.Holds)"},
	{"answer-of-the-first", "each lock of a set has its own number",
		"internal/lock/together.go", "part := reply.Each[i]", "part := reply.Each[0]"},
	{"set-answered-early", "no answer is taken before a set has been asked for everywhere",
		"internal/dev/sim/together.go", "reply *wire.Reply) {\n\tt.do(", "reply *wire.Reply) {\n\tnew(mutex).do("},
	{"acquire-behind-a-release", "an acquire that a server asks for again is not sent behind its release",
		"internal/wire/class.go", "\tVote:    {votes: true, creates: true,", "\tVote:    {votes: true,"},
	{"set-behind-a-release", "a set that a server asks for again is not sent behind the release of any of its locks",
		"internal/wire/command.go", " || slices.Contains(earlier.Keys(), c.Key))", " || earlier.Key == \"\" && slices.Contains(earlier.Keys(), c.Key))"},
}
