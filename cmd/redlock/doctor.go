package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fatih/color"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/node"
)

// The exit codes of doctor beside 0, those of the monitoring plug-ins that many systems run.
const (
	exitWarnings = 1
	exitFaults   = 2
)

// doctorCmd examines whether the nodes are set up as docs/operations.md asks for.
type doctorCmd struct {
	programFlags
	Only []string `placeholder:"CHECK" help:"Make these checks only."`
	JSON bool     `name:"json" help:"Print the report as one JSON document."`
	serverFlags
}

// Help returns what stands above the flags.
func (*doctorCmd) Help() string {
	return `Looks at each node, names what is not as docs/operations.md asks for, and says how to fix it. Nothing is changed. The exit code
is 0 if all is well, 1 after warnings, 2 after faults.

  redlock doctor --key-prefix lock: --restart-guard 1m`
}

// Run examines the nodes and prints the report.
func (c *doctorCmd) Run(ctx context.Context, to streams) error {
	servers, err := c.servers()
	if err != nil {
		return err
	}
	if err := c.checkFlags(servers); err != nil {
		return &exitError{exitUsage, err}
	}
	options := c.options(&c.serverFlags)
	options.Only = c.Only
	report, err := doctor.Examine(ctx, servers, options)
	if err != nil {
		return err
	}
	if c.JSON {
		err = display.JSON(to.out, report, "  ")
	} else {
		writeReport(to.out, report)
	}
	switch {
	case err != nil:
		return err
	case report.Count(doctor.Fault) > 0:
		return &exitError{exitFaults, nil}
	case report.Count(doctor.Warning) > 0:
		return &exitError{exitWarnings, nil}
	}
	return nil
}

// checkFlags checks the flags before anything is connected.
func (c *doctorCmd) checkFlags(servers []*node.Server) error {
	err := c.programFlags.check(servers)
	for _, name := range c.Only {
		if !slices.Contains(doctor.Names(), name) {
			err = errors.Join(err, fmt.Errorf("--only: %q is no check; the checks are %s", name, strings.Join(doctor.Names(), ", ")))
		}
	}
	return err
}

// writeReport prints a block for each finding, what could not be examined, and a line that counts them.
func writeReport(w io.Writer, r *doctor.Report) {
	for _, f := range alike(r.Findings) {
		fmt.Fprintf(w, "%s  %s  %s\n", severityColor(f.Severity).Sprint(strings.ToUpper(string(f.Severity))), loud.Sprint(f.Node), dim.Sprint(f.Check))
		for _, part := range []struct{ label, text string }{{"what", f.What}, {"why", f.Why}, {"fix", f.Fix}, {"docs", f.Docs}} {
			fmt.Fprintf(w, "  %s  %s\n", dim.Sprintf("%-4s", part.label), part.text)
		}
		fmt.Fprintln(w)
	}
	for _, line := range unexamined(r.Unexamined) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%s, %s: %s\n", counted(len(r.Nodes), "node"), counted(len(r.Checks), "check"), outcome(r))
}

// alike returns the findings with those that differ only in the node made into one, whose Node names them all.
func alike(findings []doctor.Finding) (groups []doctor.Finding) {
	var nodes [][]string
	for _, f := range findings {
		node := cmp.Or(f.Node, "all nodes")
		f.Node = ""
		i := slices.Index(groups, f)
		if i < 0 {
			i, groups, nodes = len(groups), append(groups, f), append(nodes, nil)
		}
		nodes[i] = append(nodes[i], node)
	}
	for i := range groups {
		groups[i].Node = strings.Join(nodes[i], ", ")
	}
	return groups
}

// unexamined returns a line for each thing that was missing, with the checks that need it.
func unexamined(all []doctor.Unexamined) (lines []string) {
	checks, nodes := map[string][]string{}, map[string][]string{}
	var needs []string
	for _, u := range all {
		if checks[u.Needs] == nil {
			needs = append(needs, u.Needs)
		}
		checks[u.Needs] = append(checks[u.Needs], u.Check)
		nodes[u.Needs] = append(nodes[u.Needs], u.Node)
	}
	for _, need := range needs {
		slices.Sort(nodes[need])
		on := slices.Compact(nodes[need])
		where := counted(len(on), "node")
		if len(on) == 1 {
			where = on[0]
		}
		slices.Sort(checks[need])
		lines = append(lines, fmt.Sprintf("Not examined on %s: %s. That takes %s.", where, strings.Join(slices.Compact(checks[need]), ", "), need))
	}
	if slices.ContainsFunc(needs, func(need string) bool { return strings.HasPrefix(need, "the right ") }) {
		lines = append(lines, "Run doctor once more as an administrator of the servers, who has these rights.")
	}
	return lines
}

// outcome says how many blocks there are, and on how many nodes if that is more than one.
func outcome(r *doctor.Report) string {
	if len(r.Findings) == 0 {
		return good.Sprint("nothing to fix")
	}
	var parts []string
	for _, severity := range []doctor.Severity{doctor.Fault, doctor.Warning} {
		of := slices.DeleteFunc(slices.Clone(r.Findings), func(f doctor.Finding) bool { return f.Severity != severity })
		part := counted(len(alike(of)), string(severity))
		on := map[string]bool{}
		for _, f := range of {
			on[f.Node] = true
		}
		if delete(on, ""); len(on) > 1 {
			part += " on " + counted(len(on), "node")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

func severityColor(s doctor.Severity) *color.Color {
	if s == doctor.Fault {
		return bad
	}
	return odd
}
