package doctor

import "fmt"

// memoryChecks look at whether a server keeps what is in its memory.
var memoryChecks = []check{
	{name: "eviction", docs: "operations.md#server-settings", need: info("maxmemory_policy"), node: eviction,
		why: "Locks are evicted when memory is short, and nobody notices until there are two holders."},
	{name: "memory", docs: "operations.md#server-settings", need: info("maxmemory", "used_memory"), node: memory,
		why: "A full node answers OOM to acquires, and grants no locks."},
}

// persistenceChecks look at what a server knows after a restart.
var persistenceChecks = []check{
	{name: "persistence", docs: "operations.md#persistence-and-restarts", need: info("aof_enabled"), node: persistence,
		why: "A node that restarts without its latest data has forgotten locks, and grants them to others."},
	{name: "durable", docs: "operations.md#persistence-and-restarts", need: both(info("aof_enabled"), durableKnown), node: durable,
		when: func(o *Options) bool { return len(o.Durable) > 0 },
		why:  "The programs take the node for durable (pool.WithDurable), so its restart is not guarded: what it forgets is granted to others at once."},
	{name: "snapshot", docs: "operations.md#server-settings", need: info("rdb_last_bgsave_status"), node: snapshot,
		why: "A node that cannot write to its disk answers MISCONF to everything, releases included: keys stay until their TTL ends."},
	{name: "aof-errors", docs: "operations.md#monitoring", need: info("aof_last_write_status"),
		why: "A node that cannot write to its disk answers MISCONF to everything, and loses at a restart what it could not write.",
		node: func(_ *examination, f *facts) []Finding {
			return faultIf(f.info["aof_last_write_status"] != "ok", "the last write to the AOF failed",
				"free or repair the disk: the server's log has the reason")
		}},
}

func eviction(_ *examination, f *facts) []Finding {
	const fix = "CONFIG SET maxmemory-policy noeviction (also in the file)"
	if policy := f.info["maxmemory_policy"]; policy != "noeviction" {
		return fault("maxmemory-policy is "+quoted(policy), fix)
	}
	n := number(f.info, "evicted_keys")
	return warningIf(n > 0, fmt.Sprintf("%d keys have been evicted since the server was started", n),
		"keep the policy noeviction; CONFIG RESETSTAT resets the number")
}

func memory(_ *examination, f *facts) []Finding {
	used, limit := number(f.info, "used_memory"), number(f.info, "maxmemory")
	what := fmt.Sprintf("%d of %d bytes (maxmemory) are in use", used, limit)
	const fix = "CONFIG SET maxmemory BYTES (also in the file) with several times the need, or 0 for no limit; or remove what fills the server"
	if f.refused("OOM") {
		return fault("out of memory: "+what, fix)
	}
	return warningIf(nearlyUsed(used, limit), what, fix)
}

// durableKnown is the need of whoever wants to know whether the server syncs each write.
func durableKnown(f *facts) string {
	if f.info["aof_enabled"] == "0" {
		return ""
	}
	return config("appendfsync", "no-appendfsync-on-rewrite")(f)
}

// fsync returns why the server may lose data that it has confirmed; "" if it does not.
func (f *facts) fsync() string {
	switch {
	case f.info["aof_enabled"] == "0":
		return "appendonly is no"
	case f.config["appendfsync"] != "always":
		return "appendfsync is " + quoted(f.config["appendfsync"])
	case f.config["no-appendfsync-on-rewrite"] != "no":
		return "no-appendfsync-on-rewrite is " + quoted(f.config["no-appendfsync-on-rewrite"])
	}
	return ""
}

const fixFsync = "CONFIG SET appendonly yes, CONFIG SET appendfsync always, CONFIG SET no-appendfsync-on-rewrite no (then also in the file)"

func persistence(x *examination, f *facts) []Finding {
	if x.RestartGuard > 0 || x.durable(f) {
		return nil
	}
	const fix = "set " + restartGuards + " to the longest TTL; or on the server: " + fixFsync
	if f.info["aof_enabled"] == "0" {
		return fault("a restart loses locks (appendonly is no), and the programs have no restart guard", fix)
	}
	why := f.fsync()
	return warningIf(why != "" && durableKnown(f) == "",
		"a crash of the machine loses the latest locks ("+why+"), and the programs have no restart guard", fix)
}

func durable(x *examination, f *facts) []Finding {
	why := f.fsync()
	return faultIf(x.durable(f) && why != "", "it is declared durable, but "+why, fixFsync+"; or do not declare it durable")
}

func snapshot(_ *examination, f *facts) []Finding {
	const fix = "free or repair the disk (the server's log has the reason), then BGSAVE; or CONFIG SET save \"\" (also in the file): locks need no snapshots"
	if f.refused("MISCONF") && f.info["aof_last_write_status"] != "err" {
		return fault("the last snapshot failed, and the server rejects all writes (MISCONF)", fix)
	}
	return warningIf(f.info["rdb_last_bgsave_status"] != "ok" && f.config["save"] != "", "the last snapshot failed", fix)
}
