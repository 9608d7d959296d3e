package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

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
	Prepare bool     `help:"Stamp the nodes, so that they may vote when programs begin."`
	Only    []string `placeholder:"CHECK" help:"Make these checks only."`
	JSON    bool     `name:"json" help:"Print the report as one JSON document."`

	MetricsDir string `placeholder:"DIR" help:"Write metrics there, for node_exporter."`
	serverFlags
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
	if err := c.checkMetrics(); err != nil {
		return err
	}
	options := c.options(&c.serverFlags)
	options.Only, options.Prepare = c.Only, c.Prepare
	report, err := doctor.Examine(ctx, servers, options)
	if err != nil {
		return err
	}
	if c.MetricsDir != "" {
		if err := c.writeMetrics(time.Now(), report); err != nil {
			fmt.Fprintf(to.err, "redlock: metrics: %s\n", display.Error(err))
		}
	}
	if c.JSON {
		err = display.JSON(to.out, report.Document(), "  ")
	} else {
		writeReport(to.out, report)
	}
	switch {
	case err != nil || len(report.Findings) == 0:
		return err
	case report.Findings[0].Severity == doctor.Fault: // they come first
		return &exitError{exitFaults, nil}
	}
	return &exitError{exitWarnings, nil}
}

// checkFlags checks the flags before anything is connected.
func (c *doctorCmd) checkFlags(servers []*node.Server) error {
	err := c.programFlags.check(servers)
	if c.Prepare && c.RestartGuard == 0 {
		err = errors.Join(err, errors.New("--prepare needs --restart-guard: without one there are no stamps"))
	}
	if c.RestartGuard == 0 && slices.ContainsFunc(servers, func(s *node.Server) bool { return s.Finder != nil }) {
		err = errors.Join(err, errors.New("--restart-guard is needed, that of the programs: nodes fail over"))
	}
	for _, name := range c.Only {
		if !slices.Contains(doctor.Names(), name) {
			err = errors.Join(err, fmt.Errorf("--only: %q is no check; the checks are %s", name, strings.Join(doctor.Names(), ", ")))
		}
	}
	return err
}

// writeReport prints a block for each finding, what could not be examined, and a line that counts them.
func writeReport(w io.Writer, r *doctor.Report) {
	groups := r.Groups()
	for _, g := range groups {
		severity, nodes := odd, cmp.Or(strings.Join(g.Nodes, ", "), "all nodes")
		if g.Severity == doctor.Fault {
			severity = bad
		}
		fmt.Fprintf(w, "%s  %s  %s\n", severity.Sprint(strings.ToUpper(string(g.Severity))), loud.Sprint(nodes), dim.Sprint(g.Check))
		for _, part := range []struct{ label, text string }{{"what", g.What}, {"why", g.Why}, {"fix", g.Fix}, {"docs", g.Docs}} {
			fmt.Fprintf(w, "  %s  %s\n", dim.Sprintf("%-4s", part.label), part.text)
		}
		fmt.Fprintln(w)
	}
	for _, line := range unexamined(r.Unexamined) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%s, %s: %s\n", display.Counted(len(r.Nodes), "node"), display.Counted(len(r.Checks), "check"), outcome(groups))
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
		where := display.Counted(len(on), "node")
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
func outcome(groups []doctor.Group) string {
	if len(groups) == 0 {
		return good.Sprint("nothing to fix")
	}
	var parts []string
	for _, severity := range []doctor.Severity{doctor.Fault, doctor.Warning} {
		n, on := 0, map[string]bool{}
		for _, g := range groups {
			if g.Severity == severity {
				n++
				for _, node := range g.Nodes {
					on[node] = true
				}
			}
		}
		part := display.Counted(n, string(severity))
		if len(on) > 1 {
			part += " on " + display.Counted(len(on), "node")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// programFlags say how the programs are set up that use the locks. Commands that judge nodes embed it.
type programFlags struct {
	guardFlags
	Fencing     bool          `help:"The programs use fencing tokens."`
	Shared      bool          `help:"The programs use shared locks or slots."`
	NodeTimeout time.Duration `default:"300ms" placeholder:"TIME" help:"The programs' node timeout (default ${default})."`
	MaxTTL      time.Duration `name:"max-ttl" placeholder:"TIME" help:"The longest TTL of the programs."`
}

// longest bounds the times of the programs. A longer one is a mistake.
const longest = 365 * 24 * time.Hour

// check checks the flags.
func (f *programFlags) check(servers []*node.Server) error {
	return errors.Join(
		f.guardFlags.check(servers),
		between("--max-ttl", f.MaxTTL, 0, longest),
		between("--node-timeout", f.NodeTimeout, time.Millisecond, longest),
	)
}

// options returns what the doctor has to know of the programs, with the prefix and the timeout of the nodes.
func (f *programFlags) options(nodes *serverFlags) doctor.Options {
	return doctor.Options{
		Prefix: nodes.KeyPrefix, Timeout: nodes.Timeout, NodeTimeout: f.NodeTimeout, TTL: f.MaxTTL, RestartGuard: f.RestartGuard,
		Durable: f.Durable, Fencing: f.Fencing, Shared: f.Shared,
	}
}
