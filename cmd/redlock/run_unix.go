//go:build darwin || freebsd || linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func (c *runCmd) rules() supervise.Rules {
	descendants := c.Descendants
	if runtime.GOOS != "linux" { // they cannot be found
		descendants = supervise.DescendantsIgnore
	}
	return supervise.Rules{TTL: c.TTL, OnLost: c.OnLost, KillAfter: c.killAfter(), Descendants: descendants}
}

// supervise runs the command under the lock and returns how it ended.
func (c *runCmd) supervise(
	ctx context.Context, events *supervise.Events, started func(ago time.Duration),
) (supervise.Report, error) {
	open := func() (*supervise.Job, error) { return c.job(events) }
	report, err := supervise.Front(ctx, c, c.rules(), open, started)
	if err != nil || report.Code == 0 && report.Text == "" {
		return report, err
	}
	if report.Text != "" {
		err = errors.New(report.Text)
	}
	return report, &exitError{report.Code, err}
}

// hold does the holder's part if this process was started as one. A stage becomes the command.
func hold() (code int, isHolder bool) {
	supervise.Become()
	link, err := supervise.Inherited()
	if err != nil {
		fmt.Fprintln(os.Stderr, "redlock: error:", err)
		return exitInternal, true
	}
	if link == nil {
		return 0, false
	}
	var c runCmd
	report := supervise.Report{Code: exitInternal}
	if err = link.Setup(&c); err == nil {
		report, err = c.hold(link)
	}
	if err != nil {
		report = supervise.Report{Code: exitCode(err), Text: display.Error(err)}
	}
	link.Report(report)
	return report.Code, true
}

// hold holds the lock while the command runs.
func (c *runCmd) hold(link *supervise.Link) (report supervise.Report, err error) {
	events := supervise.NewEvents(os.Stderr, c.Name, c.JSON, c.Verbose)
	defer events.Close()
	job, err := c.job(events)
	if err != nil {
		return report, err
	}
	defer job.Close()
	return supervise.Hold(link, job), nil
}

// job returns what a process does. It opens the nodes.
func (c *runCmd) job(events *supervise.Events) (*supervise.Job, error) {
	seen := supervise.NewObserver()
	opts := []redlock.Option{
		c.Owner, redlock.TTL(c.TTL), redlock.WithClock(supervise.Clock{}), redlock.WithObserver(seen),
	}
	if c.Fencing {
		opts = append(opts, redlock.WithFencing())
	}
	cluster, err := c.open(append(c.guard(c.RestartGuard, max(c.TTL, c.AtLeast)), c.patient()), opts...)
	if err != nil {
		return nil, err
	}
	rules := c.rules()
	job := &supervise.Job{
		Rules: rules, Locker: cluster.Locker, Names: append([]string{c.Name}, c.Also...),
		Close:    cluster.Close,
		Options:  []redlock.LockOption{redlock.Metadata(c.Metadata), redlock.Grace(rules.Grace())},
		NonBlock: c.Nonblock || c.Wait != nil && *c.Wait == 0,
		AtLeast:  c.AtLeast,
		MaxHold:  c.MaxHold,
		Path:     string(c.Program[0]), Secrets: secretEnv,
		Failed: func(err error) supervise.Report { return c.failed(cluster.Locker, err) }, Observer: seen, Events: events,
	}
	switch {
	case c.Shared:
		job.Options = append(job.Options, redlock.Shared())
	case c.Slots != nil:
		job.Options = append(job.Options, redlock.Slots(*c.Slots))
	}
	for _, word := range c.Program[1:] {
		job.Args = append(job.Args, string(word))
	}
	if c.Wait != nil {
		job.Wait = *c.Wait
	}
	return job, nil
}

// failed makes the report if the lock was not acquired. Who chooses the exit code for a lock that another holds needs no text for
// it. A key without a TTL has no holder who would release it: that is always said.
func (c *runCmd) failed(locker *redlock.Locker, err error) supervise.Report {
	over := ""
	if c.Wait != nil {
		over = waitOver(err, *c.Wait)
	}
	report := supervise.Report{Code: exitCode(err), Text: over + display.Error(answersOf(err))}
	report.Taken = report.Code == exitTaken
	if !report.Taken || errors.Is(err, nodeerr.ErrNoExpiry) {
		return report
	}
	if c.ConflictCode != nil && !c.Verbose {
		return supervise.Report{Code: *c.ConflictCode, Taken: true}
	}
	name, by, nodes := c.Name, "another", ""
	if refusal := new(redlock.QuorumError); errors.As(err, &refusal) {
		name = refusal.Name
		if c.Verbose {
			nodes = display.Nodes(refusal)
		}
	}
	if state, err := client.Look(context.Background(), locker, name); err == nil && display.Holder(state) != "" {
		by = strconv.Quote(display.Holder(state))
	}
	report.Text = fmt.Sprintf("%sthe lock %q is held by %s; see: %s%s", over, name, by, c.inspectHint(c.Flags, name), nodes)
	if c.ConflictCode != nil {
		report.Code = *c.ConflictCode
	}
	return report
}
