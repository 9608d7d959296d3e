package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

// setChecks look at the list of nodes.
var setChecks = []check{
	{name: "count", docs: "operations.md#nodes", set: (*examination).count,
		why: "A lock needs more than half of the nodes. Three survive the loss of one, five of two; a fourth or sixth adds nothing to that, and attempts split the nodes more often."},
	{name: "hosts", docs: "operations.md#nodes", set: (*examination).hosts,
		why: "What takes two nodes down at once counts twice: nodes need machines, power and zones of their own."},
	{name: "databases", docs: "operations.md#before-going-live", set: (*examination).databases,
		why: "Programs exclude each other only if they use the same database of each server."},
	{name: "restart-guard", docs: "operations.md#persistence-and-restarts", set: (*examination).restartGuard,
		why: "A restarted node may have forgotten locks and fence counters: it must not grant locks before what it may have forgotten has expired."},
	{name: "duplicate", docs: "operations.md#nodes", need: info("run_id"), set: (*examination).duplicates,
		why: "The server votes only once, and takes two nodes with it when it fails."},
}

func (x *examination) count() []Finding {
	fewer := "run three or five independent servers and list them all in --nodes and in all programs; fewer are enough only if locking may be down when a node is"
	even := "remove or add one node: docs/operations.md, Changing the set of nodes"
	if slices.ContainsFunc(x.facts, (*facts).inCluster) {
		fewer = "write nodes=3 in the URL for three masters, nodes=5 for five: in all programs at once, as programs with another number do not exclude each other"
		even = fewer
	}
	switch n := len(x.facts); {
	case n < 3:
		return warning(fmt.Sprintf("%s: the loss of one stops all locking", display.Counted(n, "node")), fewer)
	case n%2 == 0:
		return warning(fmt.Sprintf("%d nodes, an even number", n), even)
	}
	return nil
}

// hosts finds nodes on one machine, by where the connections led. Loopback addresses and Unix sockets are exempt: they are
// tunnels to servers elsewhere, or a trial whose user knows that all is on one machine.
func (x *examination) hosts() (found []Finding) {
	on := map[string][]string{}
	var order []string
	for _, f := range x.facts {
		if f.ip == nil || f.ip.IsLoopback() {
			continue
		}
		ip := f.ip.String()
		if on[ip] == nil {
			order = append(order, ip)
		}
		on[ip] = append(on[ip], f.addr)
	}
	for _, ip := range order {
		if len(on[ip]) > 1 {
			found = append(found, warning(fmt.Sprintf("not independent: %s are on one host, %s", several(on[ip], 5), ip),
				"give each node a machine of its own")...)
		}
	}
	return found
}

func (x *examination) databases() []Finding {
	var uses []string
	mixed := false
	for _, f := range x.facts {
		uses = append(uses, fmt.Sprintf("%s uses %d", f.addr, f.to.Database))
		mixed = mixed || f.to.Database != x.facts[0].to.Database
	}
	return warningIf(mixed, "the URLs name different databases: "+several(uses, 15),
		"name the same database in all URLs of all programs, best none")
}

// restartGuards names the settings of the restart guard.
const restartGuards = "pool.WithRestartGuard in all programs, and --restart-guard of redlock,"

func (x *examination) restartGuard() (found []Finding) {
	if x.RestartGuard == 0 {
		return nil // the check persistence decides about that
	}
	if x.TTL > x.RestartGuard {
		found = append(found, fault(fmt.Sprintf("the restart guard of %s is shorter than the longest TTL, %s", x.RestartGuard, x.TTL),
			fmt.Sprintf("set %s to %s or longer", restartGuards, x.TTL))...)
	}
	if least := (3*time.Second + x.clockSpread()).Round(time.Millisecond); x.Fencing && x.RestartGuard < least {
		found = append(found, fault(fmt.Sprintf("the restart guard of %s is too short for fencing: the nodes' clocks need %s (3 s and what they differ by)", x.RestartGuard, least),
			fmt.Sprintf("set %s to %s or longer", restartGuards, least))...)
	}
	return found
}

func (x *examination) duplicates() (found []Finding) {
	first := map[string]*facts{}
	for _, f := range x.facts {
		id := f.runID()
		if id == "" || f.err != nil {
			continue
		}
		if other := first[id]; other != nil {
			is := fault(fmt.Sprintf("it is the same server as %s: both have the run_id %s", other.addr, quoted(id)),
				"replace one of the two URLs by that of another server, in all programs")
			if f.inCluster() && other.inCluster() {
				is = sameMaster(f, other)
			}
			is[0].Node = f.addr
			found = append(found, is...)
			continue
		}
		first[id] = f
	}
	return found
}
