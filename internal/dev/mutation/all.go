package mutation

// allMutations weaken the rules of a call that waits for several names.
var allMutations = []Mutation{
	{"patience-without-end", "a set keeps its locks only while the name that it waits for changes hands",
		"internal/lock/all.go", "\tif a.held == 0 {\n\t\treturn time.Time{}", "\tif true {\n\t\treturn time.Time{}"},
	{"patience-without-cap", "it does so for a quarter of the TTL at most",
		"internal/lock/all.go", "from.Add(min(patience+patience/2*a.luck/1000, a.most()))", "from.Add(patience + patience/2*a.luck/1000)"},
	{"renewal-is-a-change", "a push is no change: it may come from a renewal",
		"internal/lock/observe.go", "\tn.noTTLFrom = time.Time{}\n\tif n.observing", "\tn.noTTLFrom = time.Time{}\n\tq.changes.count(q.rules.Clock.Now())\n\tif n.observing"},
	{"place-left", "a set that gives back its locks keeps its place",
		"internal/lock/all.go", "return Step{Do: Await, At: a.at, GiveBack: true}", "return Step{Do: Await, At: a.at, GiveBack: true, Leave: true}"},
	{"nothing-given-back", "a set that is impatient gives back its locks",
		"internal/lock/all.go", "return Step{Do: Await, At: a.at, GiveBack: true}", "return Step{Do: Await, At: a.at}"},
	{"set-first", "a set has its turn behind the calls that wait in its process",
		"internal/lock/all.go", "if busy != 0 && a.waits {", "if false {"},
	{"set-past-others", "on its turn it does not go past the calls that wait at another name",
		"internal/lock/all.go", "case a.held == 0 && busy != 0:", "case false:"},
	{"set-not-in-order", "a set that has lost several turns holds some of its names while it waits",
		"internal/lock/all.go", "const (\n\t// maxLostTurns is how many turns a call loses with empty hands before it goes on in order.\n\tmaxLostTurns = 4", "const (\n\tmaxLostTurns = 1 << 30"},
	{"set-not-refreshed", "locks that were taken one after the other are extended before the caller gets them",
		"internal/lock/all.go", "return Step{Do: Refresh}", "return Step{Do: HaveAll}"},
	{"set-with-a-lost-lock", "a set with a lock that was lost gives back all",
		"internal/lock/all.go", "func (a *All) Refreshed(ok bool) Step {\n\tif ok {", "func (a *All) Refreshed(ok bool) Step {\n\tif true {"},
	{"turn-kept-by-a-loser", "a set that has lost its turn says so to the calls behind it",
		"internal/lock/all.go", "s.Missed = s.Do != AskNames && (!s.Leave || Blocks(by[turn], a.rules.Nodes))", "s.Missed = false"},
}
