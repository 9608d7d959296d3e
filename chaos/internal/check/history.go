package check

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// reconnect is how often a client tries to get a connection back, and more. It has several to a node, and it is not said which of them
// broke, or is there again; but the others are heard of as often.
const reconnect = 2 * time.Second

// History is a history by what concerns what.
type History struct {
	names  map[string][]*history.Op
	faults []*history.Op
	left   []*history.Op            // keys without a TTL
	stalls map[string][]*history.Op // by client
	downs  map[link][]span          // when a client had too few connections to a node
	alive  map[string]int64         // the last sign of life of each client
}

// link is what connects a client to a node.
type link struct {
	client string
	node   int
}

// New makes a history of operations in the order of their starts, those of all processes.
func New(ops []*history.Op) *History {
	h := &History{
		names: map[string][]*history.Op{}, stalls: map[string][]*history.Op{}, downs: map[link][]span{}, alive: map[string]int64{},
	}
	broken := map[link]int64{}
	for _, o := range ops {
		l := link{o.Client, o.Node}
		switch {
		case o.Kind == history.Fault:
			h.faults = append(h.faults, o)
		case o.Kind == history.Left:
			h.left = append(h.left, o)
		case o.Kind == history.Stall:
			h.stalls[o.Client] = append(h.stalls[o.Client], o)
		case o.Kind == history.Down || o.Kind == history.Up:
			if since, down := broken[l]; down {
				h.downs[l] = append(h.downs[l], span{since, max(o.End, add(since, reconnect))})
			}
			if delete(broken, l); o.Kind == history.Down {
				broken[l] = o.Start
			}
		case o.Name != "":
			h.names[o.Name] = append(h.names[o.Name], o)
		}
		if o.Kind != history.Fault {
			h.alive[o.Client] = max(h.alive[o.Client], o.Start)
			if o.Ended() {
				h.alive[o.Client] = max(h.alive[o.Client], o.End)
			}
		}
	}
	for l, since := range broken {
		h.downs[l] = append(h.downs[l], span{since, max(since, h.alive[l.client])})
	}
	return h
}

// Names returns the names of all locks.
func (h *History) Names() []string { return slices.Sorted(maps.Keys(h.names)) }

// stood returns when a client stood still, or the process with the relays, through which it talks to the nodes.
func (h *History) stood(client string) []span {
	return spansOf(append(slices.Clone(h.stalls[client]), h.stalls[history.Nemesis]...))
}

// disturbed returns when a client stood still or a connection of it was broken.
func (h *History) disturbed(client string) spans {
	return merge(append(h.stood(client), h.cutOff(client)...))
}

// cutOff returns when a client had too few connections to some node.
func (h *History) cutOff(client string) (all []span) {
	for l, downs := range h.downs {
		if l.client == client {
			all = append(all, downs...)
		}
	}
	return all
}

// faultsOf returns the faults that concern a client: all but those of other client machines alone.
func (h *History) faultsOf(client string) (all []*history.Op) {
	here := func(other string) bool { return machine(other) == machine(client) }
	for _, f := range h.faults {
		if len(f.Clients) == 0 || slices.ContainsFunc(f.Clients, here) {
			all = append(all, f)
		}
	}
	return all
}

// machine returns where a client runs: another process takes the place of one that was killed.
func machine(client string) string {
	name, _, _ := strings.Cut(client, ".")
	return name
}

func spansOf(ops []*history.Op) (all []span) {
	for _, o := range ops {
		all = append(all, span{o.Start, o.End})
	}
	return all
}

// felt returns when faults are felt: what was lost on its way may be sent again only after as long as the fault went on.
func felt(faults []*history.Op) (all []span) {
	for _, f := range faults {
		all = append(all, span{f.Start, add(f.End, time.Duration(f.End-f.Start))})
	}
	return all
}
