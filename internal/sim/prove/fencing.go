package main

import "slices"

// mutations are all of them.
var mutations = slices.Concat(lockMutations, handoffMutations, fencingMutations, guardMutations)

// fencingMutations weaken what keeps fencing tokens apart.
var fencingMutations = []mutation{
	{"no-write-back", "a node that has granted a lower number counts for the token when it has raised its counter to it",
		"quorum/fence.go", "return b.number == a.token ||", "return b.number <= a.token ||"},
	{"higher-number-agrees", "a node that has granted a higher number than the token does not count for it",
		"quorum/fence.go", "return b.number == a.token ||", "return b.number >= a.token ||"},
	{"straggler-agrees", "a lower number that comes when the token is known is raised to it like those before",
		"quorum/fence.go", "\tcase known:\n", "\tcase known:\n\t\tif number < a.token {\n\t\t\ta.ballots[node].raised = Yes\n\t\t}\n"},
	{"raise-not-awaited", "a counter counts as raised when the node has confirmed that",
		"quorum/fence.go", "|| b.raised == Yes,", "|| b.number < a.token && b.raised <= Yes,"},
	{"raise-refused-agrees", "a counter that was not raised does not count",
		"quorum/fence.go", "|| b.raised == Yes,", "|| b.raised == Yes || b.raised == No,"},
	{"raise-unanswered-agrees", "a raise that was not answered does not count",
		"quorum/fence.go", "|| b.raised == Yes,", "|| b.raised == Yes || b.raised == Unknown,"},
	{"raise-not-foreseen", "a round is not given up while the numbers that it was granted can be made to agree",
		"quorum/fence.go", "b.number < a.token && b.raised == Pending", "false"},
	{"raise-by-token", "a token is put in the place of the number that was granted, and of no other",
		"sim/keyspace.go", "c.verb == heal && !held.forever, c.verb == raise && !exactly:", "c.verb == heal && !held.forever:"},
	{"raise-unchecked", "a token is put to a key of its round only",
		"sim/keyspace.go", "case !ours, c.verb == heal && !held.forever, c.verb == raise && !exactly:", "case !ours && c.verb != raise, c.verb == heal && !held.forever:"},
	{"raise-of-nothing", "a counter is raised while the key is there that its number was granted with",
		"sim/keyspace.go", "case !ok:\n", "case !ok && c.verb == raise:\n\t\treturn reply{code: 1}\n\tcase !ok:\n"},
	{"rollback-lowers", "the release of a lost round does not set the counter back",
		"sim/keyspace.go", "counted.number > 0 && counted.number < c.fence.number && ", "counted.number > 0 && c.fenced && "},
	{"counter-ends-with-lock", "a counter outlives its lock",
		"sim/keyspace.go", "\tk.set(c.key, nil)\n\treturn", "\tk.set(c.key, nil)\n\tdelete(k.counters, c.key)\n\treturn"},
	{"counter-kept-too-short", "a counter outlives the locks whose numbers it gave by the time that was set",
		"sim/keyspace.go", "counted.expires = now + c.ttl + c.fence.keep\n", "counted.expires = now + c.ttl\n"},
	{"counter-not-kept-on", "a counter in use is kept on as it goes forward",
		"sim/keyspace.go", "counted.expires = now + c.ttl + c.fence.keep\n", "if counted.expires == 0 {\n\t\t\tcounted.expires = now + c.ttl + c.fence.keep\n\t\t}\n"},
	{"data-extended-over", "an extension does not put a counter in the place of somebody's data",
		"sim/keyspace.go", "!counted.foreign && (counted.number > 0 || !ok)", "(counted.foreign || counted.number > 0 || !ok)"},
	{"data-raised", "nor does a release raise it as if it were a counter",
		"sim/keyspace.go", "counted.number > 0 && counted.number < c.fence.number && ", "(counted.number > 0 || counted.foreign) && counted.number < c.fence.number && "},
	{"data-granted-over", "a node with somebody's data in the place of a counter grants nothing",
		"sim/keyspace.go", " || c.fenced && counted.foreign {", " {"},
	{"plain-lock-unseen", "a lock without a fencing token excludes those with one",
		"sim/keyspace.go", "k.grant(c, ok, ", "k.grant(c, ok && (held.number > 0 || !c.fenced), "},
	{"counter-not-durable", "a node that comes back with its keys comes back with its counters",
		"sim/server.go", "\tif !durable {\n", "\tclear(s.counters)\n\tif !durable {\n"},
	{"counter-from-zero", "a counter that is not there begins with the time of day",
		"sim/keyspace.go", "begin := wall\n", "begin := wall - 60*off\n"},
	{"time-unbounded", "a client's estimate of the time counts only if it is near the node's own",
		"sim/keyspace.go", "if estimate-wall <= off && wall-estimate <= off {", "if true {"},
	{"old-counter-believed", "a counter from an older copy of the data is not believed",
		"sim/keyspace.go", "number <= estimate-off\n", "number == 1\n"},
	{"own-clock-trusted", "as long as a client has not learnt the time from the nodes, counters go forward whatever its clock shows",
		"sim/round.go", "forward: !known ||", "forward: !known && false ||"},
	{"attach-highest-number", "an attached lock has the number that a majority holds, and not the highest",
		"quorum/attach.go", "Fence() uint64 { return a.fence }", "Fence() (f uint64) {\n\tfor i := range a.ballots {\n\t\tf = max(f, a.ballots[i].number)\n\t}\n\treturn f\n}"},
	{"attach-any-number", "a lock is attached to only if a majority holds it with the same number",
		"quorum/attach.go", "a.same(a.fence) >= a.need()", "a.yes >= a.need()"},
}

// guardMutations weaken the restart guard.
var guardMutations = []mutation{
	{"guard-off", "a node that may have forgotten locks does not vote until they have run out",
		"node/guard.go", "if g.MaxTTL == 0 {", "if true {"},
	{"replacement-unnoticed", "a server that takes the place of another may not have its keys, however long it has been up",
		"node/guard.go", "\tif replaced {\n", "\tif replaced && false {\n"},
	{"replacement-forgotten", "a server that took the place of another stays under guard on its next connection",
		"node/guard.go", "until.After(g.until) {", "true {"},
	{"uptime-believed", "an uptime, reported in whole seconds, may be a second too long",
		"sim/line.go", "max(0, r.up-1)", "max(0, r.up)"},
	{"guard-bars-holders", "a holder may give its lock back at once to a node that has forgotten it",
		"sim/line.go", "\t\treturn o.verb == acquire\n", "\t\treturn o.verb == acquire || o.verb == extend\n"},
}
