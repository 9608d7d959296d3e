package mutation

// refusalMutations weaken the order of the commands of scripts, any of which a server may refuse.
var refusalMutations = []Mutation{
	{"mark-without-end", "a mark has a TTL from the command on that makes it",
		"internal/dev/sim/sharers.go", "v.set(v.key, &entry{token: v.mark, expires: v.now + ttl})", "v.set(v.key, &entry{token: v.mark, expires: v.now + ttl, forever: true})"},
	{"entry-without-end", "who may not set a TTL leaves no entry",
		"internal/dev/sim/wanted.go", "\t\tk.unwant(c.Key, z, c.Token)\n\t\treturn why\n", "\t\treturn why\n"},
	{"set-without-end", "the first who shares a lock is let in only where the set may get its TTL",
		"internal/dev/sim/sharers.go", `v.call("PTTL", "PEXPIREAT", "DEL")`, `v.call("DEL")`},
	{"set-made-again-without-end", "and is let in again by an extension only there",
		"internal/dev/sim/sharers.go", "\t\tv.call(\"PTTL\", \"PEXPIREAT\")\n\t}\n", "\t}\n"},
	{"leaves-before-it-reads", "a release reads who is in before it takes one out",
		"internal/dev/sim/sharers.go", "at []string) wire.Value {\n\tv.check()\n", "at []string) wire.Value {\n\tdefer v.check()\n"},
	{"full-node-lets-in", "the first write of an acquire is one that a full server refuses",
		"internal/dev/sim/sharers.go", `v.call("ZADD", "ZREM")`, `v.call("ZREM", "ZADD")`},
}
