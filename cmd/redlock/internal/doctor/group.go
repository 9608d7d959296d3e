package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/inquiry"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/sentinel"
)

// guide is what one sentinel of a group says of it, or one server of a cluster of the slot.
type guide struct {
	inquiry.Answer
	addr  string
	known int64 // how many sentinels a sentinel knows, itself included
}

// leastWatchers is how many sentinels a group needs, so that a majority is left when one fails.
const leastWatchers = 3

// askGuides asks all servers that the URL names at once where the server of the node is.
func (f *facts) askGuides(ctx context.Context) {
	var servers []node.Server
	var ask func(s node.Server) guide
	switch finder := f.to.Finder.(type) {
	case *sentinel.Group:
		servers, ask = finder.Sentinels(), func(s node.Server) guide {
			a, known := finder.Ask(ctx, s)
			return guide{a, s.Address, known}
		}
	case *cluster.Node:
		servers, ask = finder.Servers(), func(s node.Server) guide { return guide{Answer: finder.Ask(ctx, s), addr: s.Address} }
	}
	f.guides = make([]guide, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() { f.guides[i] = ask(s) })
	}
	asking.Wait()
}

// contradictions returns the addresses that guides have named, each with one of these guides; nil if they agree.
func contradictions(guides []guide) (each []string) {
	named := map[string]string{}
	for _, g := range guides {
		named[g.Address] = g.addr
	}
	if len(named) < 2 {
		return nil
	}
	for address, by := range named {
		each = append(each, fmt.Sprintf("%s (%s)", quoted(address), by))
	}
	slices.Sort(each)
	return each
}

// sentinels looks at what the sentinels of a group say.
func sentinels(_ *examination, f *facts) (found []Finding) {
	if !f.to.Watched {
		return nil
	}
	var named []guide
	for _, g := range f.guides {
		if g.Err != nil {
			found = append(found, warning("the "+printable(g.Err.Error()),
				"start it, correct its address in the URL, or give sentinel_user and sentinel_password there")...)
			continue
		}
		named = append(named, g)
		found = append(found, warningIf(g.known < leastWatchers,
			fmt.Sprintf("the sentinel %s knows %d sentinels, itself included", g.addr, g.known),
			"run three sentinels or more, each on a machine of its own")...)
	}
	if each := contradictions(named); each != nil {
		found = append(found, fault("the sentinels do not agree on the primary: "+strings.Join(each, ", "),
			"wait for the end of a failover; then correct SENTINEL MONITOR on the one that is wrong")...)
	}
	return found
}

// groupReplicas looks at the number of replicas of a group.
func groupReplicas(f *facts) []Finding {
	n := number(f.info, "connected_slaves")
	return warningIf(n < 2, fmt.Sprintf("%d replicas are attached, so that the next primary has none", n),
		"run groups of three servers")
}

// groupMinReplicas looks at what stops a primary that is cut off.
func groupMinReplicas(f *facts) []Finding {
	n, all := number(f.config, "min-replicas-to-write"), number(f.info, "connected_slaves")
	_, is := f.info["min_slaves_good_slaves"]
	fix := fmt.Sprintf("on each server of the group: CONFIG SET min-replicas-to-write %d (also in the file)", max(all, 1))
	switch {
	case !is && n == 0:
		return fault("min-replicas-to-write is 0: a primary that is cut off goes on granting locks beside its successor", fix)
	case is && n > 0 && n < all:
		return warning(fmt.Sprintf("min-replicas-to-write is %d of %d replicas: a primary that is cut off with so many goes on granting locks", n, all), fix)
	}
	return nil
}
