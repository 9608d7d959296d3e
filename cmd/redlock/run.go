package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/jobmetrics"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	runTTL      = 30 * time.Second
	minRunTTL   = time.Second    // shorter, and a slow moment of the machine ends the command
	maxRunTTL   = 24 * time.Hour // as redlock.WithMaxTTL has it
	minEvery    = time.Minute    // alerts are evaluated about as often
	maxEvery    = 366 * 24 * time.Hour
	maxMetadata = 256  // bytes, as redlock.Metadata has it
	maxSlots    = 1024 // as redlock.Locker.Acquire has it
)

// runCmd is the subcommand run.
type runCmd struct {
	Lives        *time.Duration        `name:"ttl" placeholder:"TIME" help:"It lives so long unless renewed (default 30s)."`
	Nonblock     bool                  `short:"n" help:"Do not wait for the lock."`
	Wait         *time.Duration        `short:"w" type:"wait" placeholder:"TIME" help:"Wait for the lock so long (default: for ever)."`
	ConflictCode *int                  `name:"conflict-exit-code" short:"E" placeholder:"N" help:"Exit quietly with N if another holds the lock."`
	MaxHold      time.Duration         `placeholder:"TIME" help:"End the command after so long (default never)."`
	OnLost       supervise.OnLost      `enum:"term,kill,warn" default:"term" placeholder:"term|kill|warn" help:"What to do if the lock is lost (default ${default})."`
	KillAfter    *time.Duration        `placeholder:"TIME" help:"From TERM to KILL (default: ttl/4, up to 10s)."`
	Descendants  supervise.Descendants `enum:"wait,kill,ignore" default:"wait" placeholder:"MODE" help:"What left its group: wait, kill or ignore."`
	AtLeast      time.Duration         `placeholder:"TIME" help:"Keep the lock so long at least."`
	Also         []string              `sep:"none" placeholder:"NAME" help:"Hold this lock too: all or none; repeatable."`
	Shared       bool                  `help:"Others with --shared run beside it."`
	Slots        *int                  `placeholder:"N" help:"Slot: at most N with --slots run at a time."`
	Fencing      bool                  `help:"Number the holders: $$REDLOCK_FENCE."`
	Metadata     string                `placeholder:"TEXT" help:"Shown to others (default: what runs where)."`
	RestartGuard time.Duration         `placeholder:"TIME" help:"Servers so new grant no lock (default: off)."`
	MetricsDir   string                `placeholder:"DIR" help:"Write metrics there, for node_exporter."`
	ExpectEvery  *time.Duration        `placeholder:"TIME" help:"How often it should succeed, for the alerts."`
	Shell        *string               `name:"command" short:"c" placeholder:"STRING" help:"Run this with /bin/sh -c."`
	Verbose      bool                  `xor:"events" help:"Print what happens, on stderr."`
	JSON         bool                  `name:"json" xor:"events" help:"The same as JSON, a line for each event."`

	Name    string   `arg:"" help:"The lock."`
	Command []string `arg:"" optional:"" passthrough:"" json:"-" help:"The command and its arguments."`
	serverFlags

	Flags   commandLine   `kong:"-"` // the command line without the command
	TTL     time.Duration `kong:"-"`
	Owner   token.Self    `kong:"-"` // of the lock: both processes act for it
	Program [][]byte      `kong:"-"` // the path of the command, its name and its arguments, which need not be text
}

// Run runs the command and returns how it ended. With --json that is an event, whatever happened before.
func (c *runCmd) Run(ctx context.Context, line commandLine, to streams) error {
	events := supervise.NewEvents(to.err, c.Name, c.JSON, c.Verbose)
	defer events.Close()
	err := c.prepare(line)
	if err == nil {
		err = c.record(ctx, events)
	}
	if !c.JSON {
		return err
	}
	report := supervise.Report{Code: exitCode(err), Text: message(err)}
	events.Exit(report)
	return &exitError{report.Code, nil}
}

// prepare makes the command out of the command line, and checks the flags.
func (c *runCmd) prepare(line commandLine) error {
	// What is no UTF-8 has got lost in the parser.
	c.Flags, c.Command = line[:max(0, len(line)-len(c.Command))], line[max(0, len(line)-len(c.Command)):]
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if c.Shell != nil {
		if len(c.Command) > 0 {
			return usage("-c and a COMMAND can't be used together: -c has the whole command, as one word")
		}
		c.Command = []string{"/bin/sh", "-c", *c.Shell}
	}
	return c.check()
}

// run checks what else can be checked without a server, and hands over to the two processes that hold the lock.
func (c *runCmd) run(
	ctx context.Context, events *supervise.Events, started func(ago time.Duration),
) (report supervise.Report, err error) {
	path, err := findProgram(c.Command[0])
	if err != nil {
		return report, err
	}
	for _, word := range append([]string{path}, c.Command...) {
		c.Program = append(c.Program, []byte(word))
	}
	if c.Metadata == "" {
		c.Metadata = c.holder(time.Now())
	}
	c.Owner = token.Self(token.NewOwner())
	return c.supervise(ctx, events, started)
}

// check checks the flags.
func (c *runCmd) check() error {
	if len(c.Command) == 0 {
		return usage("no command: redlock run NAME -- COMMAND ARGUMENTS, or redlock run NAME -c STRING")
	}
	if err := c.serverFlags.check(); err != nil {
		return err
	}
	switch {
	case c.MaxHold != 0 && c.MaxHold < minRunTTL:
		return usage("--max-hold must be 0, for no limit, or at least %s, not %s", plain(minRunTTL), plain(c.MaxHold))
	case c.Lives != nil:
		c.TTL = *c.Lives
	default:
		c.TTL = min(runTTL, cmp.Or(c.MaxHold, runTTL))
	}
	for _, err := range []error{
		between("--ttl", c.TTL, minRunTTL, maxRunTTL),
		checkTimeout(c.Timeout, c.TTL),
		between("--kill-after", c.killAfter(), 0, c.TTL/2-supervise.Rules{TTL: c.TTL}.Margin()),
		between("--at-least", c.AtLeast, 0, maxRunTTL),
		checkGuard(c.RestartGuard, max(c.TTL, c.AtLeast), "--ttl and --at-least"),
	} {
		if err != nil {
			return &exitError{exitUsage, err}
		}
	}
	if c.ExpectEvery != nil {
		if c.MetricsDir == "" {
			return usage("--expect-every needs --metrics-dir: it is a metric")
		}
		if err := between("--expect-every", *c.ExpectEvery, minEvery, maxEvery); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	if c.Slots != nil {
		if err := between("--slots", *c.Slots, 1, maxSlots); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	switch {
	case c.Shared && c.Fencing:
		return usage("--shared and --fencing can't be used together: shared locks have no numbers")
	case c.Shared && len(c.Also) > 0:
		return usage("--shared and --also can't be used together: several locks are taken at once only if none is shared")
	case c.Slots != nil && c.Shared:
		return usage("--slots and --shared can't be used together: readers have no limit")
	case c.Slots != nil && c.Fencing:
		return usage("--slots and --fencing can't be used together: slots have no numbers")
	case c.Slots != nil && len(c.Also) > 0:
		return usage("--slots and --also can't be used together: several locks are taken at once only if none is shared")
	case c.Descendants == supervise.DescendantsKill && runtime.GOOS != "linux":
		return usage("--descendants=kill needs Linux: other systems do not show what a command has started")
	case c.ConflictCode != nil && (*c.ConflictCode < 0 || *c.ConflictCode > 255):
		return usage("--conflict-exit-code must be between 0 and 255, not %d", *c.ConflictCode)
	case c.Wait != nil && *c.Wait < 0:
		return usage("--wait must be at least 0, not %s", plain(*c.Wait))
	case c.MaxHold != 0 && c.MaxHold < c.TTL:
		return usage("--max-hold must be 0, for no limit, or at least --ttl (%s), not %s", plain(c.TTL), plain(c.MaxHold))
	case c.MaxHold != 0 && c.MaxHold < c.AtLeast:
		return usage("--max-hold must be 0, for no limit, or at least --at-least (%s), not %s", plain(c.AtLeast), plain(c.MaxHold))
	case len(c.Metadata) > maxMetadata || !utf8.ValidString(c.Metadata) || strings.ContainsFunc(c.Metadata, unicode.IsControl) || strings.Contains(c.Metadata, "|"):
		return usage("--metadata must be at most %d bytes of text without |, not %q", maxMetadata, c.Metadata)
	}
	return c.checkNames()
}

// checkNames returns the error that taking the locks would have for their names. It asks no server.
func (c *runCmd) checkNames() error {
	locker, err := redlock.Open(c.Nodes, anyGuard, silent, redlock.WithKeyPrefix(c.KeyPrefix))
	if err == nil {
		ended, cancel := context.WithCancel(context.Background()) // then the arguments are checked, and no more
		cancel()
		_, err = locker.TryLockAll(ended, append([]string{c.Name}, c.Also...))
		_ = locker.Close() // always nil
	}
	if errors.Is(err, redlock.ErrInvalid) {
		return err
	}
	return nil
}

// record does what run does, and writes its start and its end as metrics.
func (c *runCmd) record(ctx context.Context, events *supervise.Events) error {
	if c.MetricsDir == "" {
		_, err := c.run(ctx, events, func(time.Duration) {})
		return err
	}
	file := jobmetrics.File{Dir: c.MetricsDir, Name: c.Name}
	if c.ExpectEvery != nil {
		file.Every = *c.ExpectEvery
	}
	began := time.Now()
	report, err := c.run(ctx, events, func(ago time.Duration) { file.Start(time.Now().Add(-ago)) })
	a := jobmetrics.Attempt{
		Ended: time.Now(), Ran: report.Ran, Started: report.Started, Taken: report.Taken, Lost: report.Lost, Code: exitCode(err),
	}
	a.Waited = a.Ended.Sub(began) - a.Ran
	if failed := file.Record(a); failed != nil {
		events.Metrics(display.Error(failed))
	}
	return err
}

func (c *runCmd) killAfter() time.Duration {
	if c.KillAfter != nil {
		return *c.KillAfter
	}
	return min(c.TTL/4, 10*time.Second)
}

// findProgram returns the path of a program, or an error with a shell's exit code.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // in the current directory, which is on the PATH
		return path, nil
	case errors.Is(err, exec.ErrNotFound) && !strings.ContainsRune(name, filepath.Separator):
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
				return "", &exitError{exitCannotRun, fmt.Errorf("%s: %w", filepath.Join(dir, name), fs.ErrPermission)}
			}
		}
		return "", &exitError{exitNotFound, fmt.Errorf("%q: %w", name, exec.ErrNotFound)}
	case errors.Is(err, fs.ErrNotExist):
		return "", &exitError{exitNotFound, err}
	}
	return "", &exitError{exitCannotRun, err}
}
