package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setupChecks look at what a server is and how it treats connections.
var setupChecks = []check{
	{name: "role", docs: "before-going-live", need: info("role"), node: role,
		why: "A replica grants nothing itself: nodes must be independent masters."},
	{name: "replicas", docs: "nodes", need: info("connected_slaves"), node: replicas,
		why: "Replication is asynchronous: after a failover the new master has forgotten the latest locks. Locking needs no replicas."},
	{name: "sentinel", docs: "nodes", need: sentinelKnown, node: sentinel,
		why: "A failover replaces the node by a replica that may have forgotten the latest locks."},
	{name: "min-replicas", docs: "server-settings", need: either(info("min_slaves_good_slaves"), config("min-replicas-to-write")), node: minReplicas,
		why: "Without so many replicas the server answers NOREPLICAS to everything, releases included; and nodes should have no replicas."},
	{name: "cluster", docs: "nodes", need: info("cluster_enabled"), node: cluster,
		why: "A cluster node rejects the keys that belong to others, and its replicas take over: nodes must be independent servers."},
	{name: "state", docs: "errors", need: info("loading"), node: state,
		why: "The server answers LOADING until its data is read, and grants no locks."},
	{name: "clients", docs: "sizing", need: both(info("connected_clients"), either(info("maxclients"), config("maxclients"))), node: clients,
		why: "When the limit is reached, programs that start cannot connect to the node."},
	{name: "timeout", docs: "server-settings", need: config("timeout"), node: idleTimeout,
		why: "Connections are cut and made again all the time: programs test them only after 10 s without traffic."},
	{name: "tracking-table", docs: "server-settings", need: both(info("tracking_total_keys"), config("tracking-table-max-keys")), node: trackingTable,
		why: "The server drops the oldest keys from a full table: waiters are woken without a reason, and holders ask again."},
	{name: "buffer-limit", docs: "permissions", need: config("client-output-buffer-limit"), node: bufferLimit,
		why: "Messages and announcements come over the connection that carries the locks: the server cuts it beyond the limit."},
}

func role(_ *examination, f *facts) []Finding {
	if mode := f.info["redis_mode"]; mode == "sentinel" {
		return fault("it is a Sentinel, not a server for data", "name the server itself in the URL")
	}
	if is := f.info["role"]; is != "master" {
		return fault("it is not a master but a replica (role "+quoted(is)+")", "REPLICAOF NO ONE, after the longest TTL has passed; or list another server")
	}
	return nil
}

func replicas(_ *examination, f *facts) []Finding {
	if n := f.number("connected_slaves"); n > 0 {
		return warning(fmt.Sprintf("%d replicas are attached", n), "on each replica: REPLICAOF NO ONE, or end it")
	}
	return nil
}

func sentinelKnown(f *facts) string {
	if f.sentinels < 0 {
		return "the right +pubsub|numsub"
	}
	return ""
}

func sentinel(_ *examination, f *facts) []Finding {
	if f.sentinels > 0 {
		return warning(fmt.Sprintf("%d Sentinels watch the server", f.sentinels), "on each Sentinel: SENTINEL REMOVE NAME")
	}
	return nil
}

func minReplicas(_ *examination, f *facts) []Finding {
	n := f.setting("min-replicas-to-write")
	if _, is := f.info["min_slaves_good_slaves"]; is && n == 0 {
		n = 1 // INFO has the field only if the setting is above 0
	}
	if n == 0 {
		return nil
	}
	return fault(fmt.Sprintf("min-replicas-to-write is %d", n), "CONFIG SET min-replicas-to-write 0 (also in the file)")
}

func cluster(_ *examination, f *facts) []Finding {
	if f.info["cluster_enabled"] == "0" {
		return nil
	}
	return fault("cluster mode is on", "cluster-enabled no in the file, and a restart; or list a server of its own")
}

func state(_ *examination, f *facts) []Finding {
	if f.info["loading"] == "0" {
		return nil
	}
	return warning("the server is loading its data", "wait; redis-cli INFO persistence shows how long it takes")
}

// nearlyUsed reports whether so much is in use that a limit is near. 0 means that there is no limit.
func nearlyUsed(used, limit int64) bool { return limit > 0 && float64(used) >= 0.8*float64(limit) }

func clients(_ *examination, f *facts) []Finding {
	used, limit := f.number("connected_clients"), cmp.Or(f.number("maxclients"), f.setting("maxclients"))
	if !nearlyUsed(used, limit) {
		return nil
	}
	return warning(fmt.Sprintf("%d of %d connections (maxclients) are in use", used, limit),
		"CONFIG SET maxclients 10000 (also in the file), or end connections that nobody needs: CLIENT LIST")
}

func idleTimeout(_ *examination, f *facts) []Finding {
	if s := f.setting("timeout"); s > 0 && s <= 10 {
		return warning(fmt.Sprintf("timeout is %d s", s), "CONFIG SET timeout 0 (also in the file), or well above 10")
	}
	return nil
}

// fewTracked is how many keys the tracking table should hold at least.
const fewTracked = 1000

func trackingTable(_ *examination, f *facts) []Finding {
	used, limit := f.number("tracking_total_keys"), f.setting("tracking-table-max-keys")
	if !nearlyUsed(used, limit) && (limit == 0 || limit >= fewTracked) {
		return nil
	}
	return warning(fmt.Sprintf("%d of %d keys (tracking-table-max-keys) are tracked", used, limit),
		"CONFIG SET tracking-table-max-keys 1000000 (also in the file)")
}

// leastBuffer is how many bytes of messages a connection should be allowed to have waiting, at least.
const leastBuffer = 1 << 20

func bufferLimit(_ *examination, f *facts) []Finding {
	hard, soft, is := pubsubLimits(f.config["client-output-buffer-limit"])
	if !is || (hard == 0 || hard >= leastBuffer) && (soft == 0 || soft >= leastBuffer) {
		return nil
	}
	return warning(fmt.Sprintf("client-output-buffer-limit for pubsub is %d bytes, or %d for some time", hard, soft),
		`CONFIG SET client-output-buffer-limit "pubsub 33554432 8388608 60" (also in the file)`)
}

// pubsubLimits reads the limits of pubsub. The setting has four words for each class: its name, the hard limit, the soft one,
// seconds.
func pubsubLimits(setting string) (hard, soft int64, is bool) {
	for words := range slices.Chunk(strings.Fields(setting), 4) {
		if len(words) == 4 && words[0] == "pubsub" {
			hard, err := strconv.ParseInt(words[1], 10, 64)
			soft, err2 := strconv.ParseInt(words[2], 10, 64)
			return hard, soft, err == nil && err2 == nil
		}
	}
	return 0, 0, false
}
