package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/load"
	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// benchCmd is the subcommand bench.
type benchCmd struct {
	Nodes []string `placeholder:"URL" group:"Nodes" help:"URLs of your nodes; none: it starts some."`
	Count int      `default:"5" group:"Nodes" help:"How many nodes to start, from 1 to 15."`

	Callers  int           `default:"64" group:"Load" help:"How many callers lock at once, to 1000."`
	Names    string        `default:"distinct" enum:"distinct,hot" group:"Load" help:"distinct: a lock each; hot: one for all."`
	Rate     float64       `default:"0" group:"Load" help:"Cycles due per second; 0: no schedule."`
	Duration time.Duration `default:"10s" group:"Load" help:"How long to measure, from 10ms to 24h."`
	WarmUp   time.Duration `default:"1s" group:"Load" help:"How long to run before the measurement."`
	TTL      time.Duration `default:"10s" group:"Load" help:"TTL of a lock, from 100ms to 1m."`
	Timeout  time.Duration `default:"300ms" group:"Load" help:"How long one node may take; at most --ttl/4."`
	Fencing  bool          `group:"Load" help:"Take locks with fencing tokens, whose counters stay a minute longer than the TTL."`
	Prefix   string        `default:"redlock-bench:" group:"Load" help:"What the keys begin with; a random part follows."`

	Freeze  int           `placeholder:"K" group:"Faults, for nodes that the bench starts" help:"Freeze K nodes after the warm-up (SIGSTOP)."`
	Kill    int           `placeholder:"K" group:"Faults, for nodes that the bench starts" help:"Kill K nodes after the warm-up."`
	Latency time.Duration `placeholder:"TIME" group:"Faults, for nodes that the bench starts" help:"Delay the answers of some nodes."`
	Slow    int           `default:"1" group:"Faults, for nodes that the bench starts" help:"How many nodes --latency applies to."`

	JSON bool `name:"json" xor:"format" group:"Output" help:"Print JSON. Each number has its unit in its name."`
	CSV  bool `name:"csv" xor:"format" group:"Output" help:"Print CSV: table, name, metric, value."`
}

const (
	ownNodes    = 5
	mostCallers = 1000
	mostRate    = 1e6
	shortestTTL = 100 * time.Millisecond
	shortestRun = 10 * time.Millisecond
	longestRun  = 24 * time.Hour
	randomPart  = 10 // of the keys, in characters

	// reachable is how long a majority of the nodes may take until the first lock is acquired.
	reachable = 2 * time.Second
)

// Validate checks the flags before anything is started or connected.
func (c *benchCmd) Validate() error {
	if err := c.checkNodes(); err != nil {
		return err
	}
	if err := errors.Join(
		between("--callers", c.Callers, 1, mostCallers),
		between("--rate", c.Rate, 0, mostRate),
		between("--duration", c.Duration, shortestRun, longestRun),
		between("--warm-up", c.WarmUp, 0, longestRun),
		between("--ttl", c.TTL, shortestTTL, maxTTL),
	); err != nil {
		return err
	}
	return checkTimeout(c.Timeout, c.TTL)
}

// Run measures and prints. In any case nothing of the bench is left when it returns.
func (c *benchCmd) Run(ctx context.Context, to streams) (err error) {
	nodes, err := startNodes(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, testredis.Close(nodes.servers)) }()

	r := &benchreport.Report{
		Kind: nodes.kind, Callers: c.Callers, Names: c.Names, Fencing: c.Fencing,
		Prefix: c.Prefix + strings.ToLower(rand.Text()[:randomPart]) + ":",
		TTL:    c.TTL.Seconds(), Timeout: c.Timeout.Seconds(), Planned: c.Duration.Seconds(), WarmUp: c.WarmUp.Seconds(),
		Faults: nodes.faults,
	}
	r.Result, err = c.measure(ctx, nodes, r.Prefix, to)
	if r.Result == nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted before the measurement: %w", ctx.Err())
		}
		return err
	}
	r.Interrupted = err != nil
	if err := c.print(to.out, r); err != nil {
		return err
	}
	switch {
	case err != nil:
		return fmt.Errorf("interrupted after %.1f s of %s: %w", r.Elapsed, plain(c.Duration), err)
	case r.Cycles == 0 && len(r.Failures) > 0:
		return fmt.Errorf("no cycle succeeded: %s", r.Failures[0].Example)
	case r.Cycles == 0:
		return errors.New("no cycle ended within --duration")
	}
	return nil
}

// measure runs the load. If it is interrupted, it returns the result until then with the error.
func (c *benchCmd) measure(ctx context.Context, on *benchNodes, prefix string, to streams) (result *benchreport.Result, err error) {
	open := []pool.Option{pool.WithTimeout(c.Timeout), pool.WithClientName("redlock-bench")}
	if len(on.slow) > 0 {
		open = append(open, pool.WithDialer(on.dial))
	}
	if failsOver(on.urls) {
		open = append(open, pool.WithRestartGuard(c.TTL))
	}
	nodes, err := pool.Open(on.urls, open...)
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, node := range nodes {
		addrs = append(addrs, node.Addr())
		defer func() { err = errors.Join(err, node.Close()) }()
	}
	waits := c.Names == benchreport.Hot
	votes := load.NewVotes(addrs, waits)
	opts := []redlock.Option{silent, redlock.TTL(c.TTL), redlock.WithKeyPrefix(prefix), redlock.WithObserver(votes, protocol.Votes, protocol.Rounds)}
	if c.Fencing {
		opts = append(opts, redlock.WithFencing(), redlock.WithFenceTTL(time.Minute))
	}
	locker, err := redlock.New(nodes, opts...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	names := make([]string, c.Callers) // of the callers' locks
	for i := range names {
		names[i] = benchreport.Hot
		if !waits {
			names[i] = strconv.Itoa(i)
		}
	}
	if err := c.checkReachable(ctx, locker, names[0]); err != nil {
		return nil, err
	}
	take := locker.TryLock
	if waits {
		take = locker.Lock
	}
	defer progress(to.err, c.WarmUp, c.Duration)()
	return load.Run(ctx, load.Plan{
		Take:  func(ctx context.Context, name string) (load.Held, error) { return take(ctx, name) },
		Names: names, Waits: waits, Rate: c.Rate, WarmUp: c.WarmUp, Duration: c.Duration,
		Votes: votes, Ready: on.inject, Over: func() { _ = locker.Close() }, // waits until all votes are counted
	})
}

// checkReachable fails with each node's reason if no lock can be acquired.
func (c *benchCmd) checkReachable(ctx context.Context, locker *redlock.Locker, name string) error {
	ctx, cancel := context.WithTimeout(ctx, max(reachable, 2*c.Timeout))
	defer cancel()
	lock, err := locker.Lock(ctx, name)
	if err == nil {
		_ = lock.Unlock(ctx) // what is wrong shows when it is measured
	}
	var refusal *redlock.QuorumError
	if !errors.As(err, &refusal) {
		return err
	}
	return fmt.Errorf("the bench needs %d of %d nodes: %w", refusal.Need, len(refusal.Nodes), refusal)
}

// progress shows how much time has passed, if w is a terminal. The function that it returns
// removes the bar.
func progress(w io.Writer, warmUp, duration time.Duration) (stop func()) {
	if terminal(w) == nil {
		return func() {}
	}
	began, tick, over := time.Now(), time.NewTicker(200*time.Millisecond), make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		defer tick.Stop()
		defer fmt.Fprint(w, "\r\x1b[K")
		for {
			select {
			case <-tick.C:
			case <-over:
				return
			}
			passed, phase := time.Since(began), "warming up"
			if passed >= warmUp {
				phase = "measuring"
			}
			part := min(1, passed.Seconds()/(warmUp+duration).Seconds())
			bar := strings.Repeat("=", int(40*part))
			fmt.Fprintf(w, "\r%-10s [%-40s] %3.0f%% of %s", phase, bar, 100*part, plain(warmUp+duration))
		}
	})
	return func() {
		close(over)
		showing.Wait()
	}
}
