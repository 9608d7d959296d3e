package mutation

// turnMutations weaken the turns in which processes take a lock.
var turnMutations = []Mutation{
	{"no-head-start", "a process that is not the next lets others try first",
		"internal/lock/observe.go", "if q.turn.place == placeBehind && !q.turn.gaveWay {", "if false {"},
	{"list-dropped-by-readers", "a process that shares a lock gives its list of waiting processes to the next",
		"internal/lock/queue.go", "return q.next(q.turn.entrust(acts), now)", "q.turn.peers = nil\n\t\treturn q.next(acts, now)"},
	{"list-lost-with-the-turn", "a process that loses its turn sends the list on",
		"internal/lock/peers.go", "if p.Owner != holder && len(m.Peers) < MaxPeers {", "if false {"},
	{"first-is-behind", "a process with the list is the next",
		"internal/lock/peers.go", "\tq.turn.place = placeNext\n\tq.pace.comesFirst()\n", ""},
	{"push-without-calls-ignored", "a call does not trust what a node has shown before it has pushed a change",
		"internal/lock/observe.go", "\tn.Tracked, n.changed = false, true\n\tif len(q.line.calls) == 0 {\n\t\treturn acts\n\t}\n",
		"\tif len(q.line.calls) == 0 {\n\t\treturn acts\n\t}\n\tn.Tracked, n.changed = false, true\n"},
}
