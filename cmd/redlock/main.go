// Command redlock shows what a quorum lock over N independent Redis nodes does, and
// how fast.
//
//	redlock demo                         on five nodes inside the program
//	redlock demo --nodes URL,URL,URL     on nodes of your own
//	redlock stock                        what a holder that was paused does to a stock, with fencing and without
//	redlock bench                        latency and throughput on redis-server processes of its own
//	redlock bench --nodes URL,URL,URL    on nodes of your own
//	redlock bench --rate 2000 --freeze 1 --html report.html
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/fatih/color"

	"github.com/quorumlock/quorumlock/internal/stock"
)

// cli holds the subcommands: a struct each, with a method Run. What a Run may ask for
// is bound in run.
type cli struct {
	Demo  demoCmd  `cmd:"" help:"Show what a quorum lock does, on five nodes inside this program or on your own."`
	Stock stockCmd `cmd:"" help:"Sell a stock while holders of the lock are paused: oversold without fencing tokens, never with them."`
	Bench benchCmd `cmd:"" help:"Measure how long a quorum lock takes, on nodes of its own or on yours."`
}

// streams is where a subcommand writes to.
type streams struct{ out, err io.Writer }

// output ends the command when nobody reads its output any more.
type output struct {
	io.Writer
	end context.CancelFunc
}

func (o output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.end()
	}
	return n, err
}

func main() {
	stock.Serve() // in the processes that the subcommand stock starts
	// Not among the signals that end the command: it comes from sockets and other processes' pipes too.
	signal.Ignore(syscall.SIGPIPE)
	// A second signal changes nothing: some senders send two, and cleaning up is soon
	// over.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], streams{output{color.Output, stop}, color.Error})
	stop()
	os.Exit(code)
}

// run carries out one command line and returns the exit code: 0, 1 where the
// command failed, 80 for arguments that make no sense. When ctx ends, the command cleans
// up after itself and fails.
func run(ctx context.Context, args []string, to streams) int {
	var code *int // set by kong, also when it has printed its help
	parser, err := kong.New(&cli{},
		kong.Name("redlock"),
		kong.Description("A lock over N independent Redis nodes, held by a majority of them."),
		kong.Writers(to.out, to.err),
		kong.Exit(func(c int) {
			if code == nil {
				code = &c
			}
		}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(to),
	)
	if err != nil {
		fmt.Fprintln(to.err, "redlock:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if code != nil {
		return *code
	}
	if err == nil {
		err = command.Run()
	}
	parser.FatalIfErrorf(err)
	if code != nil {
		return *code
	}
	return 0
}
