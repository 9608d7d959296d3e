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
	{name: "role", docs: "operations.md#before-going-live", need: info("role"), node: role,
		why: "A replica grants nothing itself: nodes must be independent masters."},
	{name: "replicas", docs: "operations.md#nodes", need: info("connected_slaves"),
		why: "Replication is asynchronous: after a failover the new master has forgotten the latest locks. Locking needs no replicas.",
		node: func(_ *examination, f *facts) []Finding {
			switch {
			case f.to.Watched:
				return groupReplicas(f)
			case f.inCluster():
				return clusterReplicas(f)
			}
			n := number(f.info, "connected_slaves")
			return warningIf(n > 0, fmt.Sprintf("%d replicas are attached", n), "on each replica: REPLICAOF NO ONE, or end it")
		}},
	{name: "sentinel", docs: "operations.md#nodes", need: sentinelKnown,
		why: "A failover replaces the node by a replica that may have forgotten the latest locks.",
		node: func(_ *examination, f *facts) []Finding {
			return warningIf(f.sentinels > 0 && !f.to.Watched, fmt.Sprintf("%d Sentinels watch the server", f.sentinels), "on each Sentinel: SENTINEL REMOVE NAME")
		}},
	{name: "sentinels", docs: "failover.md#sentinel", need: nothing, node: sentinels,
		why: "A group has no primary, and grants no locks, while its sentinels cannot agree on one."},
	{name: "min-replicas", docs: "operations.md#server-settings", need: either(info("min_slaves_good_slaves"), config("min-replicas-to-write")), node: minReplicas,
		why: "Without so many replicas the server answers NOREPLICAS to everything, releases included; and nodes should have no replicas."},
	{name: "cluster", docs: "operations.md#nodes", need: clusterModeKnown, node: clusterMode,
		why: "A cluster node rejects the keys that belong to others, and its replicas take over: nodes must be independent servers."},
	{name: "state", docs: waitsDocs, need: info("loading"),
		why: "The server answers LOADING until its data is read, and grants no locks.",
		node: func(_ *examination, f *facts) []Finding {
			return warningIf(f.info["loading"] != "0", "the server is loading its data", "wait; redis-cli INFO persistence shows how long it takes")
		}},
	{name: "clients", docs: "operations.md#sizing", need: both(info("connected_clients"), either(info("maxclients"), config("maxclients"))), node: clients,
		why: "When the limit is reached, programs that start cannot connect to the node."},
	{name: "timeout", docs: "operations.md#server-settings", need: config("timeout"),
		why: "Connections are cut and made again all the time: programs test them only after 10 s without traffic.",
		node: func(_ *examination, f *facts) []Finding {
			s := number(f.config, "timeout")
			return warningIf(s > 0 && s <= 10, fmt.Sprintf("timeout is %d s", s), "CONFIG SET timeout 0 (also in the file), or well above 10")
		}},
	{name: "tracking-table", docs: "operations.md#server-settings", need: both(info("tracking_total_keys"), config("tracking-table-max-keys")), node: trackingTable,
		why: "The server drops the oldest keys from a full table: waiters are woken without a reason, and holders ask again."},
	{name: "buffer-limit", docs: "operations.md#permissions", need: config("client-output-buffer-limit"), node: bufferLimit,
		why: "Messages and announcements come over the connection that carries the locks: the server cuts it beyond the limit."},
}

func role(_ *examination, f *facts) []Finding {
	is := f.info["role"]
	if is == "master" {
		return nil
	}
	fix := "REPLICAOF NO ONE, after the longest TTL has passed; or list another server"
	if f.to.Finder != nil { // two masters of one group would both grant locks
		fix = "wait for the end of a failover; if it stays so, correct the servers that named this one. Never REPLICAOF NO ONE here"
	}
	return fault("it is not a master but a replica (role "+quoted(is)+")", fix)
}

func sentinelKnown(f *facts) string {
	if f.sentinels < 0 {
		return "the right +pubsub|numsub"
	}
	return ""
}

func minReplicas(_ *examination, f *facts) []Finding {
	switch {
	case f.to.Watched:
		return groupMinReplicas(f)
	case f.inCluster():
		return because("Without so many replicas the master answers NOREPLICAS to everything, releases included.", clusterMinReplicas(f))
	}
	n := number(f.config, "min-replicas-to-write")
	if _, is := f.info["min_slaves_good_slaves"]; is && n == 0 {
		n = 1 // INFO has the field only if the setting is above 0
	}
	return faultIf(n != 0, fmt.Sprintf("min-replicas-to-write is %d", n), "CONFIG SET min-replicas-to-write 0 (also in the file)")
}

// nearlyUsed reports whether so much is in use that a limit is near. 0 means that there is no limit.
func nearlyUsed(used, limit int64) bool { return limit > 0 && float64(used) >= 0.8*float64(limit) }

const fixMaxClients = "CONFIG SET maxclients 10000 (also in the file), or end connections that nobody needs: CLIENT LIST"

func clients(_ *examination, f *facts) []Finding {
	used, limit := number(f.info, "connected_clients"), cmp.Or(number(f.info, "maxclients"), number(f.config, "maxclients"))
	return warningIf(nearlyUsed(used, limit), fmt.Sprintf("%d of %d connections (maxclients) are in use", used, limit), fixMaxClients)
}

// fewTracked is how many keys the tracking table should hold at least.
const fewTracked = 1000

func trackingTable(_ *examination, f *facts) []Finding {
	used, limit := number(f.info, "tracking_total_keys"), number(f.config, "tracking-table-max-keys")
	return warningIf(nearlyUsed(used, limit) || limit != 0 && limit < fewTracked,
		fmt.Sprintf("%d of %d keys (tracking-table-max-keys) are tracked", used, limit),
		"CONFIG SET tracking-table-max-keys 1000000 (also in the file)")
}

// leastBuffer is how many bytes of messages a connection should be allowed to have waiting, at least.
const leastBuffer = 1 << 20

func bufferLimit(_ *examination, f *facts) []Finding {
	hard, soft, is := pubsubLimits(f.config["client-output-buffer-limit"])
	return warningIf(is && (hard != 0 && hard < leastBuffer || soft != 0 && soft < leastBuffer),
		fmt.Sprintf("client-output-buffer-limit for pubsub is %d bytes, or %d for some time", hard, soft),
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
