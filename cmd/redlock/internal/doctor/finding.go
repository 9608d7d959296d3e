// Package doctor examines whether servers are set up as docs/operations.md asks for.
package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	Warning Severity = "warning" // locking works, but worse than it could or not in every situation
	Fault   Severity = "fault"   // locking does not work, or is not safe
)

// Finding is something that is not as it should be.
type Finding struct {
	Check    string   `json:"check"` // its name, which is stable: for example "eviction"
	Severity Severity `json:"severity"`
	Node     string   `json:"node,omitempty"` // its address; "" if the finding is about the set of nodes
	What     string   `json:"what"`
	Why      string   `json:"why"`  // it matters
	Fix      string   `json:"fix"`  // the command or setting that does
	Docs     string   `json:"docs"` // a link into the docs
}

// Unexamined is a check that could not be made on a node, which is neither a fault nor a warning.
type Unexamined struct {
	Check string `json:"check"`
	Node  string `json:"node,omitempty"` // its address; "" if the check is about the set of nodes
	Needs string `json:"needs"`          // what it would take, for example "the right +config|get"
}

// Server is what was seen of one node. What was not measured, or not reported, is left out.
type Server struct {
	Node          string   `json:"node"` // its address
	Reachable     bool     `json:"reachable"`
	Version       string   `json:"version,omitempty"` // for example "Redis 7.0.15"
	RunID         string   `json:"run_id,omitempty"`
	UptimeSeconds *int64   `json:"uptime_s,omitempty"`
	P50           *float64 `json:"p50_ms,omitempty"` // of the round trips of PING
	P99           *float64 `json:"p99_ms,omitempty"`
	ClockOffset   *float64 `json:"clock_offset_ms,omitempty"`      // how far its clock is ahead of this machine's
	ClockError    *float64 `json:"clock_uncertainty_ms,omitempty"` // the offset is right to this
}

// Report is what an examination has come to.
type Report struct {
	Nodes      []string     `json:"nodes"`      // their addresses
	Servers    []Server     `json:"servers"`    // Servers[i] is about Nodes[i]
	Checks     []string     `json:"checks"`     // the names of all checks that were made
	Findings   []Finding    `json:"findings"`   // the faults first; within them in the order of checks and nodes
	Unexamined []Unexamined `json:"unexamined"` // in the order of checks and nodes
}

// Document is a report as JSON, which has each finding once.
type Document struct {
	*Report
	Findings []Group `json:"findings"`
}

// Document returns the report as JSON has it.
func (r *Report) Document() Document { return Document{r, append([]Group{}, r.Groups()...)} }

// Group is what is not as it should be, on all nodes where that is the same.
type Group struct {
	Finding          // of no node
	Nodes   []string `json:"nodes,omitempty"` // their addresses; none if it is about the set of nodes
}

// Groups returns the findings by what they have found, in the order of the first ones.
func (r *Report) Groups() (groups []Group) {
	for _, f := range r.Findings {
		node := f.Node
		f.Node = ""
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Finding == f })
		if i < 0 {
			i, groups = len(groups), append(groups, Group{Finding: f})
		}
		if node != "" {
			groups[i].Nodes = append(groups[i].Nodes, node)
		}
	}
	return groups
}

// fault makes a finding. What comes from a server must be a number, or go through quoted or printable.
func fault(what, fix string) []Finding {
	return []Finding{{Severity: Fault, What: what, Fix: fix}}
}

// warning is as fault.
func warning(what, fix string) []Finding {
	return []Finding{{Severity: Warning, What: what, Fix: fix}}
}

// faultIf makes a finding of what is so, if it is.
func faultIf(is bool, what, fix string) []Finding {
	if !is {
		return nil
	}
	return fault(what, fix)
}

// warningIf is as faultIf.
func warningIf(is bool, what, fix string) []Finding {
	if !is {
		return nil
	}
	return warning(what, fix)
}

// because gives findings a reason of their own, in the place of that of the check.
func because(why string, found []Finding) []Finding {
	for i := range found {
		found[i].Why = why
	}
	return found
}

// maxQuoted is how many characters of a server's text a finding shows at most.
const maxQuoted = 80

// quoted returns a text of a server or a user in quotes, in printable characters and not too long.
func quoted(text string) string {
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}

// printable returns a text as it is, except for characters that a terminal would act on, and not too long.
func printable(text string) string { return display.Clipped(text, 4*maxQuoted) }

// several joins names, the first few of them.
func several(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
