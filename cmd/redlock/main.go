// Command redlock runs commands under locks over N independent Redis nodes, and is the tool of those who run the nodes.
//
//	redlock run NAME -- COMMAND     runs a command while it holds a lock
//	redlock list                    shows all locks
//	redlock doctor                  examines whether the nodes are set up right
//	redlock web                     shows nodes and locks on a local page
//	redlock demo                    shows what a quorum lock does
//
// docs/tool.md describes all commands. A command is a struct in a file of its name; what is more than flags and output is in
// internal.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"github.com/fatih/color"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
)

// cli holds the subcommands: a struct each, with a method Run. Its arguments are bound in run.
type cli struct {
	Run     runCmd     `cmd:"" group:"Take locks" help:"Run a command while holding a lock."`
	Try     tryCmd     `cmd:"" group:"Take locks" help:"Take a lock for a script, and print its token."`
	Extend  extendCmd  `cmd:"" group:"Take locks" help:"Extend a lock by its token."`
	Release releaseCmd `cmd:"" group:"Take locks" help:"Release a lock by its token."`

	List    listCmd    `cmd:"" group:"Look after locks" help:"Show all locks."`
	Inspect inspectCmd `cmd:"" group:"Look after locks" help:"Show who holds a lock, on each node."`
	Unlock  unlockCmd  `cmd:"" group:"Look after locks" help:"Free a lock, by its token or by force."`

	Doctor doctorCmd `cmd:"" group:"Look after nodes" help:"Examine whether the nodes are set up right."`
	Web    webCmd    `cmd:"" group:"Look after nodes" help:"Show nodes and locks on a page for browsers."`

	Demo       demoCmd       `cmd:"" group:"More" help:"Show what a quorum lock does, step by step."`
	Bench      benchCmd      `cmd:"" group:"More" help:"Measure how long a quorum lock takes."`
	Completion completionCmd `cmd:"" group:"More" help:"Print a completion script for a shell."`
	Man        manCmd        `cmd:"" group:"More" help:"Print the manual page."`

	Version kong.VersionFlag `help:"Print the version."`
}

// streams is where a subcommand writes to.
type streams struct{ out, err io.Writer }

// commandLine is the arguments of the tool, byte by byte.
type commandLine []string

func main() {
	if code, isHolder := hold(); isHolder {
		os.Exit(code)
	}
	// SIGPIPE does not end the command: it comes from sockets and other processes' pipes too.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) { // as nohup has it
			signal.Notify(signals, sig)
		}
	}
	go func() {
		// A second signal changes nothing: some senders send two, and cleaning up is soon over.
		cancel(supervise.Interrupted{Signal: <-signals})
	}()
	os.Exit(run(ctx, os.Args[1:], streams{color.Output, color.Error}))
}

// run carries out one command line and returns the exit code. When ctx ends, the command cleans up after itself and fails.
func run(ctx context.Context, args []string, to streams) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &output{w: to.out, cancel: cancel}
	to.out = out
	exited := false // set by kong when it has printed help or the version
	tool := &cli{}
	parser, err := kong.New(tool,
		kong.Name("redlock"),
		kong.Description("A lock over N independent Redis nodes, held by a majority of them."),
		kong.Writers(to.out, to.err),
		kong.Vars{"version": version()},
		kong.ValueFormatter(func(v *kong.Value) string { return v.Help }), // the variables are named in the title of their group
		kong.ExplicitGroups([]kong.Group{{Key: "Nodes", Title: "Nodes, also by variables such as $REDLOCK_NODES, or in a file"}}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Exit(func(int) { exited = true }),
		kong.PostBuild(addDetails),
		kong.NamedMapper("wait", kong.MapperFunc(decodeWait)),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(to, commandLine(args)),
	)
	if err != nil {
		fmt.Fprintln(to.err, "redlock:", err)
		return exitInternal
	}
	if len(args) > 0 && args[0] == completeNames {
		if args = nameQuery(parser.Model, args[1:]); args == nil {
			return 0
		}
	}
	command, err := parser.Parse(asFlags(args))
	if exited {
		err = nil // of what came after it
	} else if err == nil {
		if err = checkText(args[:max(0, len(args)-len(tool.Run.Command))], os.Environ()); err == nil {
			err = command.Run()
		}
	}
	switch cause := context.Cause(ctx); {
	case err == nil || cause == nil:
	case err == ctx.Err(): //nolint:errorlint // that and nothing else
		err = &exitError{exitCode(cause), nil}
	case errors.Is(err, ctx.Err()):
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	err = out.outcome(err)
	if text := message(err); text != "" {
		fmt.Fprintln(to.err, "redlock: error:", text)
	}
	return exitCode(err)
}

// checkText refuses flags, names and variables that are not UTF-8: kong changes them, and a lock of another name would be meant. The
// words of a command that is run are not among the args.
func checkText(args, env []string) error {
	for _, arg := range args {
		if !utf8.ValidString(arg) {
			return usage("%q is not UTF-8", arg)
		}
	}
	for _, variable := range env {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "REDLOCK_") && !utf8.ValidString(value) {
			return usage("$%s is not UTF-8", name)
		}
	}
	return nil
}

// asFlags turns "help" and "version" into the flags of these names. No arguments mean help.
func asFlags(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	case args[0] == "version":
		return []string{"--version"}
	}
	return args
}

// version returns the version of the tool, of Go, and of the platform.
func version() string {
	build := "unknown version"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		build = info.Main.Version
	}
	return fmt.Sprintf("redlock %s (%s, %s/%s)", build, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
