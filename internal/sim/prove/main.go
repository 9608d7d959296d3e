// Command prove shows that the simulator finds what it looks for: it weakens one rule
// of the protocol after the other, in a build of its own, and runs the simulator until it
// notices.
//
//	prove                        every mutant, in a few lines each
//	prove -mutant no-drift       one, with its story
//	prove -seeds 1000000 -write  the whole proof: writes docs/proof.md
//
// It is run in the root of the module, and exits with 1 if a mutant survives or the
// protocol itself breaks a promise.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/sim"
)

// bound is how many schedules a mutant may survive.
const bound = 300_000

func main() {
	one := flag.String("mutant", "", "try this mutant only, and tell its story")
	seeds := flag.Uint64("seeds", 0, "run the protocol as it is through this many schedules as well")
	write := flag.Bool("write", false, "write docs/proof.md")
	flag.Parse()
	if err := run(*one, *seeds, *write); err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func run(one string, seeds uint64, write bool) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	p := proof{Date: time.Now().UTC().Format(time.DateOnly), Bound: bound, Seeds: seeds}
	if seeds > 0 {
		begin := time.Now()
		found, tried := sim.Search(context.Background(), 1, seeds)
		if found != nil {
			fmt.Println(strings.Join(found.Story, "\n"))
			return fmt.Errorf("seed %d: %s", found.Seed, found.What)
		}
		p.Took = time.Since(begin).Round(time.Second)
		fmt.Printf("%d schedules in %v: no promise was broken\n", tried, p.Took)
	}
	for _, m := range mutants {
		if one != "" && m.Name != one {
			continue
		}
		found, err := m.try(root, 1)
		switch {
		case err != nil:
			return err
		case found == nil:
			return fmt.Errorf("%s survives %d schedules", m.Name, bound)
		}
		fmt.Printf("%s: seed %d, %s\n", m.Name, found.Seed, found.What)
		if one != "" {
			fmt.Println(strings.Join(found.Story, "\n"))
		}
		p.Mutants = append(p.Mutants, result{m, found})
	}
	if len(p.Mutants) == 0 {
		return fmt.Errorf("there is no mutant %q", one)
	}
	if write {
		return p.write(root)
	}
	return nil
}
