package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// clusterChecks look at the cluster that makes a node. For other nodes they find nothing.
var clusterChecks = []check{
	{name: "cluster-servers", docs: clusterDocs, need: nothing, node: clusterServers,
		why: "Programs ask the servers of the URL for the master of each node. If these name two, two programs can hold one lock."},
	{name: "full-coverage", docs: clusterDocs, need: ofCluster(config("cluster-require-full-coverage")),
		why: "One master that fails stops all masters until its replica has taken over, and all locking with them.",
		node: func(_ *examination, f *facts) []Finding {
			is := f.config["cluster-require-full-coverage"]
			return warningIf(f.inCluster() && is != "no", "cluster-require-full-coverage is "+quoted(is),
				"on each server of the cluster: CONFIG SET cluster-require-full-coverage no (also in the file)")
		}},
}

const clusterDocs = "failover.md#redis-cluster"

// inCluster reports whether a cluster makes the node.
func (f *facts) inCluster() bool { return f.to.Tag != "" }

// key returns a key or a channel as it is on the server.
func (f *facts) key(key string) string { return f.to.Tag + key }

// slot returns the hash slot of a node that a cluster makes.
func (f *facts) slot() int { return f.to.Finder.(*cluster.Node).Slot() }

// nothing is the need of a check that can be made in any case.
func nothing(*facts) string { return "" }

// ofCluster returns a need that only the nodes of a cluster have.
func ofCluster(need func(*facts) string) func(*facts) string {
	return func(f *facts) string {
		if !f.inCluster() {
			return ""
		}
		return need(f)
	}
}

// clusterServers looks at what the servers of the URL say.
func clusterServers(_ *examination, f *facts) (found []Finding) {
	if !f.inCluster() {
		return nil
	}
	var named []guide
	for _, g := range f.guides {
		switch {
		case g.Err != nil:
			found = append(found, warning("the "+printable(g.Err.Error()), "start it, or name another server of the cluster in the URL")...)
		case g.Epoch == 0:
			found = append(found, warning(fmt.Sprintf("the cluster node %s has a cluster_state that is not ok", g.addr),
				"redis-cli --cluster check "+g.addr+" shows which servers or slots are missing")...)
		default:
			named = append(named, g)
		}
	}
	if each := contradictions(named); each != nil {
		found = append(found, fault(fmt.Sprintf("the servers do not agree on the master of the slot %d: %s", f.slot(), strings.Join(each, ", ")),
			"wait for the end of a failover or a resharding; or name servers of one cluster only, the same in all programs")...)
	}
	return found
}

// clusterMode looks at cluster mode, which only the nodes of a cluster may have.
func clusterMode(_ *examination, f *facts) []Finding {
	if !f.inCluster() {
		return faultIf(f.info["cluster_enabled"] != "0", "cluster mode is on",
			"write redis+cluster:// in the URL; or cluster-enabled no in the file, and a restart")
	}
	return because("The master answers CLUSTERDOWN, and grants no locks.", faultIf(f.cluster["cluster_state"] != "ok",
		fmt.Sprintf("cluster_state is %s: %d of 16384 slots have a master, and %d of them one that has failed",
			quoted(f.cluster["cluster_state"]), number(f.cluster, "cluster_slots_assigned"), number(f.cluster, "cluster_slots_fail")),
		"start the masters that have failed, or give their slots to others: redis-cli --cluster check and CLUSTER NODES name them"))
}

func clusterModeKnown(f *facts) string {
	if !f.inCluster() {
		return info("cluster_enabled")(f)
	}
	if f.cluster == nil {
		return "the right +cluster|info"
	}
	return ""
}

// clusterReplicas looks at what takes over from a master.
func clusterReplicas(f *facts) []Finding {
	return because("When the master fails, nothing takes over its slot: the node grants no locks until it is back.",
		warningIf(number(f.info, "connected_slaves") == 0, "no replica is attached to the master",
			"on a server without slots: CLUSTER REPLICATE with the id of this master"))
}

// clusterMinReplicas looks at what stops a master without replicas. A master that is cut off stops by itself.
func clusterMinReplicas(f *facts) []Finding {
	const fix = "on each server of the cluster: CONFIG SET min-replicas-to-write 0 (also in the file)"
	n := number(f.config, "min-replicas-to-write")
	good, is := f.info["min_slaves_good_slaves"]
	switch {
	case is && (good == "0" || number(f.info, "min_slaves_good_slaves") < n):
		return fault(fmt.Sprintf("only %s of the replicas are attached that min-replicas-to-write asks for", quoted(good)), fix)
	case is || n > 0:
		return warning("min-replicas-to-write is above 0: after a failover the next master may have too few", fix)
	}
	return nil
}

// sameMaster returns the finding that a cluster has two nodes on one master.
func sameMaster(f, other *facts) []Finding {
	return fault(fmt.Sprintf("one master has the slots %d and %d, of this node and of %s", f.slot(), other.slot(), other.addr),
		fmt.Sprintf("move the slot %d to a master that has none of the others: redis-cli --cluster reshard; or take no more nodes than masters, in all programs", f.slot()))
}

// guideFix is what to do if no server says where the server of the node is.
func guideFix(f *facts, err error) string {
	refusal := (*nodeerr.ServerError)(nil)
	switch {
	case !f.inCluster():
		return "start the sentinels, correct their addresses or the name of the group in the URL, or give sentinel_user and sentinel_password there"
	case errors.As(err, &refusal) && refusal.Code == "NOPERM":
		return "ACL SETUSER " + f.user + " +cluster|slots +cluster|info"
	case errors.As(err, &refusal) && slices.Contains([]string{"NOAUTH", "WRONGPASS", "DENIED"}, refusal.Code):
		_, fix := explainRefusal(refusal, f)
		return fix
	}
	return "start the servers of the cluster, or correct their addresses in the URL; a server that is in no cluster has a URL of its own, redis://"
}
