package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/inquiry"
	"github.com/quorumlock/quorumlock/internal/sentinel"
)

// watcher is what one sentinel of the group says of it.
type watcher struct {
	inquiry.Answer
	addr  string
	known int64 // how many sentinels it knows, itself included
}

// leastWatchers is how many sentinels a group needs, so that a majority is left when one fails.
const leastWatchers = 3

// askSentinels asks each sentinel of a group what it knows.
func (f *facts) askSentinels(ctx context.Context) {
	g, is := f.to.Finder.(*sentinel.Group)
	if !is {
		return
	}
	for _, s := range g.Sentinels() {
		a, known := g.Ask(ctx, s)
		f.watchers = append(f.watchers, watcher{a, s.Address, known})
	}
}

// sentinels looks at what the sentinels of a group say.
func sentinels(_ *examination, f *facts) (found []Finding) {
	named := map[string]string{} // a sentinel that names an address as the primary
	for _, w := range f.watchers {
		if w.Err != nil {
			found = append(found, warning("the "+printable(w.Err.Error()),
				"start it, correct its address in the URL, or give sentinel_user and sentinel_password there")...)
			continue
		}
		named[w.Address] = w.addr
		found = append(found, warningIf(w.known < leastWatchers,
			fmt.Sprintf("the sentinel %s knows %d sentinels, itself included", w.addr, w.known),
			"run three sentinels or more, each on a machine of its own")...)
	}
	if len(named) > 1 {
		var each []string
		for primary, by := range named {
			each = append(each, fmt.Sprintf("%s (%s)", quoted(primary), by))
		}
		slices.Sort(each)
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
