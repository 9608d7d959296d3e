package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/load"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// benchCmd is the subcommand bench.
type benchCmd struct {
	Nodes []string `placeholder:"URL" group:"Nodes" help:"Redis nodes to measure: redis://, rediss:// or unix:// URLs with commas between them. No key is left on them but what --fencing leaves. Without it the nodes are redis-server processes of its own, or nodes inside this program (miniredis) where redis-server is not installed."`
	Count *int     `placeholder:"5" group:"Nodes" help:"How many nodes of its own, from 1 to 15."`

	Callers  int           `default:"64" group:"Load" help:"How many callers take locks at the same time, from 1 (pure latency) to 1000."`
	Names    string        `default:"distinct" enum:"distinct,hot" group:"Load" help:"distinct: each caller has a lock of its own, asks for it once (TryLock), and a refusal is counted. hot: all of them want the same lock and wait until they have it (Lock); an acquire is that wait, with the pauses between its rounds."`
	Rate     float64       `placeholder:"PER-SECOND" group:"Load" help:"How many cycles of an acquire and a release are due per second, at fixed instants that do not wait for the lock. Latencies count from the instant at which a cycle was due, so that they are corrected for coordinated omission. Without it each caller goes as fast as it can, after a failure not before 5ms are over, and latencies are not corrected."`
	Duration time.Duration `default:"10s" group:"Load" help:"How long to measure, from 10ms to 24h."`
	WarmUp   time.Duration `default:"1s" group:"Load" help:"How long to run before that without measuring."`
	TTL      time.Duration `default:"10s" group:"Load" help:"How long a lock lives that is not released, from 100ms to 1m."`
	Timeout  time.Duration `default:"50ms" group:"Load" help:"How long one node may take, at most a quarter of the TTL."`
	Fencing  bool          `group:"Load" help:"Take locks with fencing tokens. Their counters stay on the nodes for a minute beyond the TTL."`
	Prefix   string        `default:"redlock-bench:" group:"Load" help:"What the keys begin with. A random part that is new for each run follows."`

	Freeze  int           `placeholder:"K" group:"Faults, for nodes of its own" help:"Stop so many of the processes in their tracks (SIGSTOP) after the warm-up: they stay connected and do not answer. A majority may be among them."`
	Kill    int           `placeholder:"K" group:"Faults, for nodes of its own" help:"Kill so many nodes after the warm-up."`
	Latency time.Duration `placeholder:"TIME" group:"Faults, for nodes of its own" help:"Have the answers of some nodes come later by so much, from the beginning."`
	Slow    *int          `placeholder:"1" group:"Faults, for nodes of its own" help:"How many nodes --latency is for."`

	JSON bool   `name:"json" xor:"format" group:"Output" help:"Print JSON, where each number has its unit in its name."`
	CSV  bool   `name:"csv" xor:"format" group:"Output" help:"Print CSV: table, name, metric, value."`
	HTML string `name:"html" placeholder:"FILE" group:"Output" help:"Write the tables and charts into one HTML file that needs no other."`
	SVG  string `name:"svg" placeholder:"FILE" group:"Output" help:"Write the charts into one SVG file."`
}

// Help is shown under the flags.
func (benchCmd) Help() string {
	return "Measures how long it takes to acquire and to release a lock on a quorum of nodes, and how each node answers beside it. " +
		"A cycle is an acquire and its release, with nothing between them.\n\n" +
		"The exit code is 0 where at least one cycle succeeded: refusals are a result. An interrupt ends the measurement, and what was measured until then is shown."
}

const (
	hotNames    = "hot"
	mostCallers = 1000
	mostRate    = 1e6
	shortestTTL = 100 * time.Millisecond
	longestRun  = 24 * time.Hour
)

// Validate checks the flags before anything is started or connected.
func (c *benchCmd) Validate() error {
	if err := c.checkNodes(); err != nil {
		return err
	}
	switch {
	case c.Callers < 1 || c.Callers > mostCallers:
		return fmt.Errorf("--callers: %d: must be from 1 to %d", c.Callers, mostCallers)
	case !(c.Rate >= 0 && c.Rate <= mostRate):
		return fmt.Errorf("--rate: %v: must be from 0 to %.0f", c.Rate, mostRate)
	case c.Duration < 10*time.Millisecond || c.Duration > longestRun:
		return fmt.Errorf("--duration: %s: must be from 10ms to %s", c.Duration, longestRun)
	case c.WarmUp < 0 || c.WarmUp > longestRun:
		return fmt.Errorf("--warm-up: %s: must be from 0s to %s", c.WarmUp, longestRun)
	case c.TTL < shortestTTL || c.TTL > maxTTL:
		return fmt.Errorf("--ttl: %s: must be from %s to %s", c.TTL, shortestTTL, maxTTL)
	}
	if err := checkTimeout(c.Timeout, c.TTL); err != nil {
		return err
	}
	if c.HTML != "" && c.HTML == c.SVG {
		return fmt.Errorf("--html and --svg: %s: must be two files", c.HTML)
	}
	return c.checkPrefix()
}

// checkPrefix has the library say whether it takes the prefix.
func (c *benchCmd) checkPrefix() error {
	nodes, err := pool.Open([]string{"redis://127.0.0.1"}) // which connects to nothing
	if err != nil {
		return err
	}
	defer closeNodes(nodes)
	locker, err := redlock.New(nodes, redlock.WithKeyPrefix(c.Prefix+strings.Repeat("x", runLength+1)))
	if err != nil {
		return fmt.Errorf("--prefix: %w", err)
	}
	return locker.Close()
}

// Run measures and prints. Whatever the outcome, nothing of the bench is left when it
// returns but the files that were asked for.
func (c *benchCmd) Run(ctx context.Context, to streams) (err error) {
	files, err := openFiles(c.HTML, c.SVG)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.close()) }()
	nodes, err := startNodes(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nodes.close()) }()

	result, err := c.measure(ctx, nodes, to)
	if result == nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted before the measurement: %w", ctx.Err())
		}
		return err
	}
	r := &report{
		Kind: nodes.kind, Callers: c.Callers, Names: c.Names, Fencing: c.Fencing, Prefix: nodes.prefix,
		TTL: c.TTL.Seconds(), Timeout: c.Timeout.Seconds(), Planned: c.Duration.Seconds(), WarmUp: c.WarmUp.Seconds(),
		Faults: nodes.faults, Interrupted: err != nil, Result: result,
	}
	if err := errors.Join(c.print(to, r), files.write(r)); err != nil {
		return err
	}
	switch {
	case err != nil:
		return fmt.Errorf("interrupted after %.1f s of %s: %w", result.Elapsed, c.Duration, err)
	case result.Cycles == 0 && len(result.Failures) > 0:
		return fmt.Errorf("not one cycle succeeded: %s", result.Failures[0].Example)
	case result.Cycles == 0:
		return errors.New("not one cycle was over in time")
	}
	return nil
}

// measure runs the load. A result beside an error is what there is of it.
func (c *benchCmd) measure(ctx context.Context, on *benchNodes, to streams) (result *load.Result, err error) {
	nodes, err := pool.Open(on.urls, pool.WithTimeout(c.Timeout), pool.WithClientName("redlock-bench"))
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, node := range nodes {
			err = errors.Join(err, node.Close())
		}
	}()
	plan := load.Plan{
		Names: c.lockNames(), Waits: c.Names == hotNames,
		Rate: c.Rate, WarmUp: c.WarmUp, Duration: c.Duration,
		Ready: func(context.Context) error { return on.spoil() },
	}
	addrs := make([]string, len(nodes))
	for i, node := range nodes {
		addrs[i] = node.Addr()
	}
	plan.Votes = load.NewVotes(addrs, plan.Names)
	on.prefix = c.Prefix + strings.ToLower(rand.Text()[:runLength]) + ":"
	opts := []redlock.Option{redlock.WithTTL(c.TTL), redlock.WithKeyPrefix(on.prefix), redlock.WithObserver(plan.Votes)}
	if c.Fencing {
		opts = append(opts, redlock.WithFencing(), redlock.WithFenceTTL(time.Minute))
	}
	locker, err := redlock.New(nodes, opts...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	plan.Take = func(ctx context.Context, name string) (load.Held, error) {
		if plan.Waits {
			return locker.Lock(ctx, name)
		}
		return locker.TryLock(ctx, name)
	}
	defer progress(to.err, c.WarmUp, c.Duration)()
	return load.Run(ctx, plan)
}

// runLength is how long the random part of the keys is.
const runLength = 10

// lockNames returns the name of each caller's lock.
func (c *benchCmd) lockNames() []string {
	names := make([]string, c.Callers)
	for i := range names {
		names[i] = hotNames
		if c.Names != hotNames {
			names[i] = strconv.Itoa(i)
		}
	}
	return names
}
