package main

import "slices"

// mutations are all of them.
var mutations = slices.Concat(lockMutations, fencingMutations, guardMutations)

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
		"sim/fence.go", "case ok && (held.token != c.token || held.number != c.fence.number):", "case ok && held.token != c.token:"},
	{"raise-unchecked", "a token is put to a key of its round only",
		"sim/fence.go", "case ok && (held.token != c.token || held.number != c.fence.number):", "case false:"},
	{"raise-of-nothing", "a counter is raised while the key is there that its number was granted with",
		"sim/fence.go", "held.expires == now, !is:\n\t\treturn reply{}\n", "held.expires == now, !is:\n\t\treturn reply{code: 1}\n"},
	{"rollback-lowers", "the release of a lost round does not set the counter back",
		"sim/fence.go", "is && counted.number < c.fence.number && (", "is && ("},
	{"counter-ends-with-lock", "a counter outlives its lock",
		"sim/fence.go", "\tk.set(c.key, nil)\n", "\tk.set(c.key, nil)\n\tdelete(k.counters, c.key)\n"},
	{"counter-kept-too-short", "a counter outlives the locks whose numbers it gave by the time that was set",
		"sim/fence.go", "counted.expires = now + c.ttl + c.fence.keep\n", "counted.expires = now + c.ttl\n"},
	{"counter-not-kept-on", "a counter in use is kept on as it goes forward",
		"sim/fence.go", "counted.expires = now + c.ttl + c.fence.keep\n", "if counted.expires == 0 {\n\t\t\tcounted.expires = now + c.ttl + c.fence.keep\n\t\t}\n"},
	{"plain-lock-unseen", "a lock without a fencing token excludes those with one",
		"sim/fence.go", "return k.grant(c, ok, counted, now, wall)", "return k.grant(c, ok && held.number > 0, counted, now, wall)"},
	{"counter-not-durable", "a node that comes back with its keys comes back with its counters",
		"sim/server.go", "\tif !durable {\n", "\tclear(s.counters)\n\tif !durable {\n"},
	{"counter-from-zero", "a counter that is not there begins with the time of day",
		"sim/fence.go", "begin := wall\n", "begin := wall - 60*off\n"},
	{"time-unbounded", "what a client takes for the time counts only if it is near the node's own",
		"sim/fence.go", "if estimate-wall <= off && wall-estimate <= off {", "if true {"},
	{"old-counter-believed", "a counter from an older copy of the data is not believed",
		"sim/fence.go", "number <= estimate-off\n", "number == 1\n"},
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
	{"replacement-forgotten", "that a server took the place of another holds for its next connection as well",
		"node/guard.go", "until.After(g.until) {", "true {"},
	{"uptime-believed", "an uptime, reported in whole seconds, may be a second too long",
		"sim/guard.go", "max(0, who.up-1)", "max(0, who.up)"},
	{"guard-bars-holders", "whoever holds a lock may give it back to a node that has forgotten it at once",
		"sim/guard.go", "\t\treturn o.cmd.verb == acquire\n", "\t\treturn o.cmd.verb == acquire || o.cmd.verb == extend\n"},
}
