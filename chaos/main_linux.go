// Command chaos lets client processes take locks on real servers, while servers, networks and clients fail, records what they do and
// see, and checks that no promise of the library is broken. See docs/chaos.md.
//
//	chaos -duration 30m -seed 1     all faults that locks have to survive
//	chaos -duration 4h -soak        the same, and clients may not need more and more
//	chaos -nodes groups             nodes that fail over under Sentinel; with cluster, in a Redis Cluster
//	chaos -overload 10000           more callers than the servers can serve
//	chaos -procedures               restarts and changes of the nodes, as docs/operations.md has them
//	chaos -break all                assumptions that are broken on purpose: what docs/safety.md says has to be found
//	chaos -weaken all               rules of the library that are weakened: each has to be found
//
// It needs Linux with namespaces, redis-server, PostgreSQL, a C compiler, and ip of iproute2. It exits with 1 if a promise was broken, or
// if something was not found.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/client"
	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
	"github.com/quorumlock/quorumlock/chaos/internal/failover"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/chaos/internal/kind"
	"github.com/quorumlock/quorumlock/chaos/internal/nemesis"
	"github.com/quorumlock/quorumlock/chaos/internal/overload"
	"github.com/quorumlock/quorumlock/chaos/internal/run"
	"github.com/quorumlock/quorumlock/chaos/internal/usage"
)

// flags are what is asked for.
type flags struct {
	duration, episode time.Duration
	seed              uint64
	kinds, faults     string
	soak, procedures  bool
	breaks, weaken    string
	find              bool
	overload          int
	nodes             string
	out, root         string
}

func main() {
	var kinds []client.Kind
	for _, k := range kind.All() {
		kinds = append(kinds, k.Kind)
	}
	client.Serve(kinds)

	var f flags
	flag.DurationVar(&f.duration, "duration", time.Minute, "how long to go on")
	flag.DurationVar(&f.episode, "episode", 30*time.Second, "how long faults happen before the history is checked")
	flag.Uint64Var(&f.seed, "seed", rand.Uint64N(1<<32), "decides which faults happen, and what clients do")
	flag.StringVar(&f.kinds, "kinds", "", "of locks, with commas; default: all")
	flag.StringVar(&f.faults, "faults", "", "with commas; default: all")
	flag.BoolVar(&f.soak, "soak", false, "leave clients alive, and look at what they need")
	flag.BoolVar(&f.procedures, "procedures", false, "carry out the procedures of docs/operations.md")
	flag.StringVar(&f.breaks, "break", "", "an assumption to break, or all")
	flag.StringVar(&f.weaken, "weaken", "", "a rule to weaken, or all")
	flag.BoolVar(&f.find, "find", false, "stop at the first violation, and fail if there is none")
	flag.IntVar(&f.overload, "overload", 0, "so many callers instead, and no faults")
	flag.StringVar(&f.nodes, "nodes", servers, "what nodes are: servers, groups (under Sentinel), or cluster (Redis Cluster)")
	flag.StringVar(&f.out, "out", "", "folder for logs and histories; default: a temporary one")
	flag.StringVar(&f.root, "root", "..", "folder of the root module, for -weaken")
	flag.Parse()
	if f.weaken == "" { // the programs that it builds isolate themselves
		cluster.Isolate()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func (f flags) run(ctx context.Context) (err error) {
	fmt.Println("seed", f.seed)
	if _, err := f.failOver(); err != nil {
		return err
	}
	if f.nodes != servers && (f.overload > 0 || f.breaks != "" || f.procedures) {
		return fmt.Errorf("-nodes %s: -overload, -break and -procedures are for servers", f.nodes)
	}
	if f.overload > 0 {
		report, err := overload.Run(ctx, f.overload, f.duration, f.seed)
		fmt.Println(report)
		return err
	}
	if f.out == "" {
		if f.out, err = os.MkdirTemp("", "chaos"); err != nil {
			return err
		}
		defer func() {
			if err == nil && !f.soak {
				err = os.RemoveAll(f.out)
				return
			}
			fmt.Println("logs and histories:", f.out)
		}()
	}
	switch {
	case f.weaken != "":
		return f.findWeakened(ctx)
	case f.breaks != "":
		return f.findBroken(ctx)
	case f.procedures:
		return f.carryOut(ctx)
	}
	return f.mix(ctx)
}

// config returns what a world needs.
func (f flags) config(dir string) (c run.Config, err error) {
	c = run.Config{Seed: f.seed, Lasting: f.episode, Dir: filepath.Join(f.out, dir), Out: os.Stdout}
	if c.FailOver, err = f.failOver(); err != nil {
		return c, err
	}
	var kinds, faults []string
	for _, k := range kind.All() {
		if c.FailOver != nil && k.Strangers || c.FailOver == nil && k.FailOver {
			continue
		}
		kinds = append(kinds, k.Name)
		if chosen(f.kinds, k.Name) {
			c.Kinds = append(c.Kinds, k)
		}
	}
	for _, fault := range nemesis.Sound() {
		if c.FailOver != nil || f.soak && fault.What == "kill-client" {
			continue
		}
		faults = append(faults, fault.What)
		if chosen(f.faults, fault.What) {
			c.Faults = append(c.Faults, fault)
		}
	}
	if c.FailOver != nil {
		for _, fault := range c.FailOver.Faults {
			faults = append(faults, fault.What)
		}
		c.FailOver.Faults = slices.DeleteFunc(slices.Clone(c.FailOver.Faults), func(fault failover.Fault) bool { return !chosen(f.faults, fault.What) })
	}
	return c, errors.Join(unknown(f.kinds, kinds), unknown(f.faults, faults), os.MkdirAll(c.Dir, 0o755))
}

// servers are nodes that do not fail over.
const servers = "servers"

// failOver returns the nodes that fail over; nil if they are servers.
func (f flags) failOver() (*failover.Kind, error) {
	known := []string{servers}
	for _, k := range failover.Kinds() {
		if known = append(known, k.Name); k.Name == f.nodes {
			return &k, nil
		}
	}
	if f.nodes != servers {
		return nil, fmt.Errorf("there are no nodes %q, but %s", f.nodes, strings.Join(known, ", "))
	}
	return nil, nil
}

// chosen reports whether a name is one of those with commas, which may be all.
func chosen(names, name string) bool {
	return names == "" || slices.Contains(strings.Split(names, ","), name)
}

// unknown returns an error if one of the names, with commas, is none.
func unknown(names string, known []string) error {
	for _, name := range strings.Split(names, ",") {
		if names != "" && !slices.Contains(known, name) {
			return fmt.Errorf("there is no %q, but %s", name, strings.Join(slices.Compact(known), ", "))
		}
	}
	return nil
}

// mix runs episodes: with nodes that forget and a restart guard, and with nodes that sync each write, in turn.
func (f flags) mix(ctx context.Context) error {
	var all run.Report
	begun := time.Now()
	// Several episodes for each start of servers and clients, but both sorts of nodes in a short run.
	part := max(f.duration/4, 40*time.Second)
	if f.soak || f.nodes != servers { // which are of one sort
		part = f.duration
	}
	found := func() bool { return f.find && len(all.Violations) > 0 }
	for chapter := 0; time.Since(begun) < f.duration && !found(); chapter++ {
		c, err := f.config(fmt.Sprintf("chapter-%d", chapter))
		if err != nil {
			return err
		}
		c.Seed += uint64(chapter)
		c.Before = all.Episodes
		c.Durable = chapter%2 == 1 && c.FailOver == nil
		until := min(f.duration, time.Since(begun)+part)
		more := func() bool { return time.Since(begun) < until && !found() }
		if err := chapterOf(ctx, c, more, &all); err != nil {
			return err
		}
	}
	fmt.Printf("in %v: %v\n", time.Since(begun).Round(time.Second), all)
	var err error
	if f.soak {
		err = f.flat(all.Usage)
	}
	if f.nodes != servers && !f.find {
		err = errors.Join(err, empty(all))
	}
	switch n := len(all.Violations); {
	case f.find && n == 0:
		return errors.New("nothing was found")
	case !f.find && n > 0:
		return errors.Join(err, fmt.Errorf("%d violations", n))
	}
	return err
}

// leastHolds is how many locks are got while a node fails over, at least, on average. With fewer a run shows nothing.
const leastHolds = 10

// empty returns an error if a fault was no failover, there was none, or hardly a lock was got meanwhile.
func empty(all run.Report) error {
	switch n := all.FailOver.FailedOver + all.FailOver.Moved; {
	case n == 0 || n < all.Faults:
		return fmt.Errorf("%d faults, and %d failovers", all.Faults, n)
	case all.Meanwhile < leastHolds*n:
		return fmt.Errorf("%d locks during %d failovers, and not %d during each: that shows nothing", all.Meanwhile, n, leastHolds)
	}
	return nil
}

// flat draws what the clients have needed, and returns an error if that has grown.
func (f flags) flat(ops []*history.Op) error {
	path := filepath.Join(f.out, "usage.html")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	fmt.Println("what clients have needed:", path)
	err = errors.Join(usage.Write(file, ops), file.Close())
	if grown := usage.Grown(ops); grown != nil {
		err = errors.Join(err, errors.New(strings.Join(grown, "; ")))
	}
	return err
}

// chapterOf starts servers and clients, and runs episodes while more is true.
func chapterOf(ctx context.Context, c run.Config, more func() bool, all *run.Report) error {
	w, err := run.Start(ctx, c)
	if err != nil {
		return err
	}
	for err == nil && more() {
		var r run.Report
		if r, err = w.Episode(ctx, nil); err == nil {
			fmt.Println(r)
			all.Add(r)
		}
	}
	if errors.Is(err, run.ErrHangs) {
		all.Violations = append(all.Violations, check.Violation{Promise: "calls end with their contexts", Text: err.Error()})
		fmt.Println("VIOLATION", err)
		_ = w.Close()
		return nil
	}
	return errors.Join(err, w.Close())
}

// mostGap is for how long nobody may get a lock while a procedure is carried out: locking continues on the other nodes.
const mostGap = 2 * time.Second

// carryOut carries out the procedures, with nodes of both sorts.
func (f flags) carryOut(ctx context.Context) error {
	var all run.Report
	var gaps []string
	for _, durable := range []bool{false, true} {
		c, err := f.config(fmt.Sprintf("durable-%v", durable))
		if err != nil {
			return err
		}
		c.Durable, c.Faults = durable, nil
		w, err := run.Start(ctx, c)
		if err != nil {
			return err
		}
		for _, p := range nemesis.Procedures() {
			r, err := w.Episode(ctx, &p)
			if err != nil {
				return errors.Join(err, w.Close())
			}
			fmt.Printf("%s, durable %v: %v\n", p.What, durable, r)
			all.Add(r)
			if r.Gap > mostGap {
				gaps = append(gaps, fmt.Sprintf("%s: nobody got a lock for %v", p.What, r.Gap))
			}
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	if len(all.Violations) > 0 || gaps != nil {
		return fmt.Errorf("%d violations; %s", len(all.Violations), strings.Join(gaps, "; "))
	}
	return nil
}
