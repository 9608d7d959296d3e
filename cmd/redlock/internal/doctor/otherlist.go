package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// A program that renews a lock which a majority of the nodes does not hold, although all nodes answer, counts another majority:
// it has another list of nodes. A lock on a minority that is not renewed proves nothing: it may be what a failed attempt left.

// mostWatched is how many locks are watched at once.
const mostWatched = 100

// glimpse is what a node held of some keys at a time between two readings of the clock.
type glimpse struct {
	keys        map[string]key
	asked, seen time.Time
}

// strayed is a lock that is renewed on a minority of the nodes.
type strayed struct {
	name, token string
	on          []string // the addresses of the nodes
}

// watch looks for locks that are renewed on a minority.
func (x *examination) watch(ctx context.Context) {
	names := x.suspects()
	if len(names) == 0 {
		return
	}
	before := x.glance(ctx, names)
	names = slices.DeleteFunc(names, func(name string) bool { return len(x.minority(before, name)) == 0 })
	if len(names) == 0 {
		return
	}
	select {
	case <-time.After(x.Watch):
	case <-ctx.Done():
		return
	}
	after := x.glance(ctx, names)
	for _, name := range names {
		earlier := x.minority(before, name)
		for held, on := range x.minority(after, name) {
			if _, is := earlier[held]; is && renewed(before, after, name, on) {
				s := strayed{name: name, token: held}
				for _, i := range on {
					s.on = append(s.on, x.facts[i].addr)
				}
				x.strayed = append(x.strayed, s)
			}
		}
	}
}

// need is how many nodes make the majority.
func (x *examination) need() int { return len(x.facts)/2 + 1 }

// suspects returns names of locks that were seen on a minority of the nodes. There are none if a node could not be asked.
func (x *examination) suspects() (names []string) {
	on := map[string]int{}
	for _, f := range x.facts {
		if f.err != nil {
			return nil
		}
		for _, k := range f.keys.locks {
			if looksLikeToken(k.value) {
				on[k.name]++
				names = append(names, k.name)
			}
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return on[name] >= x.need() })
	return names[:min(len(names), mostWatched)]
}

// glance asks all nodes for some keys at once. It returns nil unless all nodes answer: a replica has not, nor has a node that
// refuses to show a key.
func (x *examination) glance(ctx context.Context, names []string) []glimpse {
	glimpses := make([]glimpse, len(x.facts))
	var asking sync.WaitGroup
	for i, f := range x.facts {
		asking.Go(func() {
			c, err := f.connect(ctx, &x.Options)
			if err != nil {
				return
			}
			defer c.Close()
			asked := time.Now()
			replies := c.all(ctx, f.observations(names, "master")...)
			if c.err != nil {
				return
			}
			keys := map[string]key{}
			for j, reply := range replies {
				if refusal, is := reply.(*nodeerr.ServerError); is && !errors.Is(refusal, nodeerr.ErrForeign) {
					return
				}
				if k, is := keyOf(names[j], reply); is {
					keys[k.name] = k
				}
			}
			glimpses[i] = glimpse{keys, asked, time.Now()}
		})
	}
	asking.Wait()
	if slices.ContainsFunc(glimpses, func(g glimpse) bool { return g.keys == nil }) {
		return nil
	}
	return glimpses
}

// minority returns the nodes that hold each token that is under a name on a minority of the nodes.
func (x *examination) minority(glimpses []glimpse, name string) map[string][]int {
	on, nodes := map[string][]int{}, make([]redlock.NodeState, len(glimpses))
	for i, g := range glimpses {
		if k, is := g.keys[name]; is && looksLikeToken(k.value) {
			held, _ := token.Split(k.value, true)
			nodes[i] = redlock.NodeState{Kind: redlock.KindExclusive, Holders: []redlock.Holder{{Token: redlock.Token(held)}}}
			on[held] = append(on[held], i)
		}
	}
	if s := survey.State(name, nodes); s.Verdict == redlock.VerdictHeld {
		delete(on, string(s.Holders[0].Token))
	}
	return on
}

// renewed reports whether the TTL on one of the nodes was lengthened between two glimpses.
func renewed(before, after []glimpse, name string, on []int) bool {
	const slack = 100 * time.Millisecond // for clocks that run at different rates
	return slices.ContainsFunc(on, func(i int) bool {
		earlier, is := before[i].keys[name]
		between := after[i].asked.Sub(before[i].seen) // at least
		return is && earlier.ttl >= 0 && after[i].keys[name].ttl > earlier.ttl-between+slack
	})
}

func (x *examination) otherList() (found []Finding) {
	for i, s := range x.strayed {
		if i == shownKeys {
			break
		}
		found = append(found, warning(fmt.Sprintf("the lock %s is renewed (%s) on %d of %d nodes, fewer than a majority: %s. Whoever holds it has another list of nodes",
			quoted(s.name), formOf(s.token), len(s.on), len(x.facts), several(s.on, shownKeys)),
			"give all programs the same list; CLIENT LIST on these nodes shows who is connected")...)
	}
	return found
}
