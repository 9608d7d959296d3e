package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// Window returns the smallest history that was found to show the violation: with the faults and stalls meanwhile that concern its
// clients.
func (h *History) Window(v Violation) []*history.Op {
	ops := slices.Clone(v.Ops)
	if v.reduce != nil {
		ops = v.reduce()
	}
	var clients []string
	all := span{never, 0}
	for _, o := range ops {
		all.from = min(all.from, o.Start)
		all.to = max(all.to, o.Start)
		if o.Ended() {
			all.to = max(all.to, o.End)
		}
		if !slices.Contains(clients, o.Client) {
			clients = append(clients, o.Client)
		}
	}
	for _, c := range clients {
		for _, o := range slices.Concat(h.faultsOf(c), h.stalls[c]) {
			if o.Start <= all.to && o.End >= all.from && !slices.Contains(ops, o) {
				ops = append(ops, o)
			}
		}
	}
	slices.SortStableFunc(ops, byStart)
	return ops
}

// Text shows operations in the order of their starts, one in a line. Times are in milliseconds since the first.
func Text(ops []*history.Op) string {
	ops = slices.SortedStableFunc(slices.Values(ops), byStart)
	var text strings.Builder
	for _, o := range ops {
		at := func(t int64) string { return fmt.Sprintf("%.3f", time.Duration(t-ops[0].Start).Seconds()*1000) }
		until := at(o.End)
		switch {
		case !o.Ended():
			until = "never"
		case o.End == o.Start:
			until = ""
		}
		who := fmt.Sprintf("%s/%d", o.Client, o.Worker)
		if o.Kind == history.Fault || o.Kind == history.Stall {
			who = "-"
		}
		fmt.Fprintf(&text, "%12s %12s  %-14s %s\n", at(o.Start), until, who, what(o))
	}
	return text.String()
}

// what says what the operation is and what has come of it.
func what(o *history.Op) string {
	words := []string{string(o.Kind)}
	say := func(known bool, format string, args ...any) {
		if known {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	say(o.What != "", "%s", o.What)
	say(o.Kind == history.Fault, "of nodes %v and clients %v", o.Nodes, o.Clients)
	say(o.Register != "", "of register %s", o.Register)
	say(o.Key != "", "of %s on node %d", o.Key, o.Node)
	say(o.Name != "", "%s", o.Name)
	say(o.Way != "", "(%s)", o.Way)
	say(o.Reads, "to read")
	say(o.Slots > 0, "one of %d", o.Slots)
	say(o.Hold != "", "by %s", o.Hold)
	say(o.Outer != "", "within %s", o.Outer)
	say(o.Renews, "which renews")
	say(o.TTL > 0, "for %v", time.Duration(o.TTL))
	say(o.Validity > 0, "valid for %v", ms(o.Validity))
	say(o.Fence > 0, "fence %d", o.Fence)
	say(o.Value != "" || o.Key != "" || o.Register != "", "value %q", o.Value)
	say(o.Token != "", "token %s", o.Token)
	switch {
	case !o.Ended():
		say(true, "= no answer")
	case o.Err != "":
		say(true, "= %s", o.Err)
	}
	return strings.Join(words, " ")
}
