// Command prove shows that the simulator finds what it searches for. It weakens one rule of the protocol after the other
// (mutation testing), each in a build of its own, and runs the simulator until it notices.
//
//	prove                          every mutation, a line each
//	prove -mutation no-drift       one, with the trace of the schedule that caught it
//	prove -seeds 1000000 -write    the whole proof: writes docs/proof.md, and for the tests testdata/seeds.txt
//
// It is run in the root of the module. It exits with 1 if a mutation survives or the protocol itself breaks a promise.
package main

import (
	"bytes"
	"context"
	_ "embed" // the text of the page
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/quorumlock/quorumlock/internal/sim"
)

// bound is how many schedules a mutation may survive.
const bound = 300_000

func main() {
	one := flag.String("mutation", "", "try this mutation only, and print the trace of the schedule that caught it")
	seeds := flag.Uint64("seeds", 0, "run the protocol as it is through this many schedules as well")
	write := flag.Bool("write", false, "write docs/proof.md and the seeds for the tests")
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
			fmt.Println(strings.Join(found.Trace, "\n"))
			return fmt.Errorf("seed %d: %s", found.Seed, found.What)
		}
		p.Took = time.Since(begin).Round(time.Second)
		fmt.Printf("%d schedules in %v: no promise was broken\n", tried, p.Took)
	}
	for _, m := range mutations {
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
			fmt.Println(strings.Join(found.Trace, "\n"))
		}
		p.Caught = append(p.Caught, caught{m, found})
	}
	switch {
	case len(p.Caught) == 0:
		return fmt.Errorf("there is no mutation %q", one)
	case write:
		return p.write(root)
	}
	return nil
}

// proof is what docs/proof.md is made of.
type proof struct {
	Date   string
	Seeds  uint64
	Took   time.Duration
	Bound  uint64
	Caught []caught
}

type caught struct {
	mutation
	*sim.Found
}

//go:embed proof.md.tmpl
var page string

func (p proof) write(root string) error {
	var text, seeds bytes.Buffer
	if err := template.Must(template.New("proof.md").Parse(page)).Execute(&text, p); err != nil {
		return err
	}
	for _, c := range p.Caught {
		fmt.Fprintln(&seeds, c.Name, c.Seed)
	}
	if err := os.WriteFile(filepath.Join(root, "docs", "proof.md"), text.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "internal", "sim", "prove", "testdata", "seeds.txt"), seeds.Bytes(), 0o644)
}
