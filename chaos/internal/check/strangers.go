package check

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// late is how long after its end a command may be carried out that was not answered.
const late = 10 * time.Second

// strangers checks that nothing has changed the keys of programs without the library, but those who may.
func (l *lock) strangers() {
	type owner struct {
		client string
		worker int
		node   int
		key    string
	}
	type place struct {
		node int
		key  string
	}
	changes := map[place][]*history.Op{} // that have come, or may have
	for _, o := range l.ops {
		if (o.Kind == history.Set || o.Kind == history.Clear) && o.Err != history.Taken {
			changes[place{o.Node, o.Key}] = append(changes[place{o.Node, o.Key}], o)
		}
	}
	set := map[owner]*history.Op{}
	for _, o := range l.ops {
		switch by := (owner{o.Client, o.Worker, o.Node, o.Key}); o.Kind {
		case history.Set:
			if o.Err == "" && o.Ended() {
				set[by] = o
			} else if o.Err != history.Taken {
				delete(set, by)
			}
		case history.Clear:
			delete(set, by)
		case history.Check:
			s := set[by]
			if s == nil || o.Err != "" || !o.Ended() || o.Value == s.Value || l.mayChange(s, o, changes[place{o.Node, o.Key}]) {
				continue
			}
			l.report(StrangerChanged, []*history.Op{s, o}, "%s on node %d was %q, and is %q", o.Key, o.Node, s.Value, o.Value)
		}
	}
}

// mayChange reports whether something is permitted to have changed the key between its Set and its Check.
func (l *lock) mayChange(set, check *history.Op, changes []*history.Op) bool {
	age := time.Duration(check.End - set.Start)
	counter := strings.HasSuffix(set.Key, ":fence") // of these none is healed
	switch {
	case l.rules.Heal > 0 && age >= l.rules.Heal && !counter:
		return true
	case !counter && merge(spansOf(l.forces)).touch(set.Start, check.End):
		return true
	}
	for _, f := range l.faults {
		// The clock of a client goes ahead, and so does what it sees; or a key that was set again looks unchanged.
		ages := l.rules.Heal > 0 && !counter && (strings.HasPrefix(f.What, "suspend") || f.What == "no-messages" && concerns(f, set.Node))
		if (forgets(f, set.Node) || ages) && f.Start <= check.End && f.End >= set.Start {
			return true
		}
	}
	for _, c := range changes {
		until := c.End
		if c.Err != "" || !c.Ended() {
			until = add(until, late)
		}
		if c != set && c.Start <= check.End && until >= set.Start {
			return true
		}
	}
	return false
}

// forgets reports whether a fault makes the node lose keys, or may do so.
func forgets(f *history.Op, node int) bool {
	for _, what := range []string{"restart", "snapshot", "fail-over", "flush", "replace", "delete", "eviction", "node-set"} {
		if concerns(f, node) && strings.HasPrefix(strings.TrimPrefix(f.What, "old-"), what) {
			return true
		}
	}
	return false
}

func concerns(f *history.Op, node int) bool { return slices.Contains(f.Nodes, node) }
