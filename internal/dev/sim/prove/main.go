// Command prove runs the protocol through simulated schedules. It also shows that this finds what it
// searches for: it weakens one rule of the protocol after the other (mutation testing), each in a build of
// its own.
//
//	prove -seeds 1000000           a million schedules, from a random seed on
//	prove -replay 17               the trace of schedule 17
//	prove -mutation no-drift       schedules with this rule weakened, and the trace of the one that caught it
//	prove -seeds 1000000 -write    the whole proof: writes docs/proof.md, docs/proof/mutations.txt, and for the tests testdata/seeds.txt
//	prove -page                    writes docs/proof.md alone, with the results in docs/proof/mutations.txt, after a change of its text
//	prove -diff BINARY -from 101 -seeds 100
//	                               the first difference to a prove that was built from another commit, if one of these schedules
//	                               runs in another way there
//
// It is run in the root of the module. It exits with 1 if a mutation survives, the protocol itself breaks
// a promise, or there is a difference.
package main

import (
	"bytes"
	"cmp"
	_ "embed" // seeds
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/dev/mutation"
	"github.com/quorumlock/quorumlock/internal/dev/sim"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// bound is how many schedules a mutation may survive.
const bound = 300_000

func main() {
	seeds := flag.Uint64("seeds", bound, "how many schedules to run")
	from := flag.Uint64("from", 0, "the first of them; 0 means any")
	replay := flag.Uint64("replay", 0, "print the trace of this schedule only")
	name := flag.String("mutation", "", "weaken this rule first")
	other := flag.String("diff", "", "print the first difference to this binary")
	each := flag.Bool("digests", false, "print the digest of each schedule, for -diff")
	record := flag.Uint64("record", 0, "print what happens in this schedule and what is asked for, for -diff")
	write := flag.Bool("write", false, "run them from 1 on, try all mutations, and write the proof")
	again := flag.Bool("page", false, "write the page of the proof again, with its results")
	flag.Parse()
	wire.Illegal = func(change string) { panic(change) }
	debug.SetGCPercent(1000) // little is in use at a time: collecting it would take half of the time
	var err error
	switch {
	case *write:
		err = prove(*seeds)
	case *again:
		err = writeAgain()
	case *name != "":
		err = trace(*name, *from)
	case *other != "":
		err = diff(older(*other), cmp.Or(*from, 1), *seeds)
	case *each:
		fmt.Println(strings.Join(digests(cmp.Or(*from, 1), *seeds), "\n"))
	case *record > 0:
		fmt.Println(strings.Join(sim.Record(sim.NewPlan(*record)), "\n"))
	case *replay > 0:
		err = show(*replay)
	default:
		err = search(cmp.Or(*from, rand.Uint64()), *seeds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

// search runs n schedules.
func search(from, n uint64) error {
	begin := time.Now()
	if seed, found := sim.Search(from, n); found {
		return show(seed)
	}
	took := time.Since(begin).Round(time.Second)
	fmt.Printf("%d schedules from seed %d on, in %v: no promise was broken\n", n, from, took)
	return nil
}

// show prints the trace of a seed, shrunk to what is needed if it breaks a promise.
func show(seed uint64) error {
	p := sim.Shrink(sim.NewPlan(seed))
	fmt.Println(strings.Join(sim.Trace(p), "\n"))
	fmt.Printf("seed %d: %d nodes, %d clients, %d steps\n", seed, p.Nodes, p.Clients, len(p.Steps))
	if v := sim.Run(p); v != nil {
		return fmt.Errorf("seed %d: %w", seed, v)
	}
	return nil
}

// trace prints the trace of the schedule that catches a mutation.
func trace(name string, from uint64) error {
	for _, m := range mutation.All() {
		if m.Name == name {
			c, err := try(m, cmp.Or(from, seedOf(m)))
			fmt.Print(c.output)
			return err
		}
	}
	return fmt.Errorf("there is no mutation %q", name)
}

// violation is the last line of a search that has found something.
var violation = regexp.MustCompile(`(?m)^prove: seed (\d+): ([^:]+): `)

// try runs the simulator with the mutation in it, at most bound schedules, from a seed on.
func try(m mutation.Mutation, from uint64) (c caught, err error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return c, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.Overlay(".", dir)
	if err != nil {
		return c, err
	}
	cmd := exec.Command("go", "run", "-overlay", overlay, "./internal/dev/sim/prove",
		"-from", fmt.Sprint(from), "-seeds", fmt.Sprint(bound))
	out, _ := cmd.CombinedOutput() // fails if it is caught
	found := violation.FindStringSubmatch(string(out))
	if bytes.HasPrefix(out, []byte("#")) {
		return c, fmt.Errorf("%s does not compile: %s", m.Name, out)
	}
	if found == nil {
		return c, fmt.Errorf("%s survives: %s", m.Name, out)
	}
	return caught{m, found[1], found[2], string(out)}, nil
}

//go:embed testdata/seeds.txt
var seeds string

// seedOf returns the seed that has caught the mutation before, or 1. Others may take minutes.
func seedOf(m mutation.Mutation) (seed uint64) {
	for line := range strings.Lines(seeds) {
		if n, _ := fmt.Sscanf(line, m.Name+" %d", &seed); n == 1 {
			return seed
		}
	}
	return 1
}

// prove runs n schedules, tries all mutations, and writes what it has found.
func prove(n uint64) error {
	begin := time.Now()
	if err := search(1, n); err != nil {
		return err
	}
	p := proof{Date: time.Now().UTC().Format(time.DateOnly), Seeds: n, Bound: bound, Took: time.Since(begin).Round(time.Second)}
	var list bytes.Buffer
	for _, m := range mutation.All() {
		c, err := try(m, seedOf(m))
		if err != nil {
			return err
		}
		fmt.Printf("%s: seed %s, %s\n", c.Name, c.Seed, c.What)
		fmt.Fprintln(&list, c.Name, c.Seed)
		p.Caught = append(p.Caught, c)
	}
	text, err := p.page()
	return errors.Join(
		err,
		os.WriteFile(pagePath, text, 0o644),
		os.WriteFile(listPath, p.list(), 0o644),
		os.WriteFile(filepath.Join("internal", "dev", "sim", "prove", "testdata", "seeds.txt"), list.Bytes(), 0o644),
	)
}
