// Command explore runs the protocol through simulated schedules, or one of them again.
//
//	explore -seeds 1000000    a million schedules, from a random seed on
//	explore -replay 17        the trace of schedule 17
//
// It exits with 1 when a promise is broken, after a trace, shrunk to what is needed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/sim"
)

func main() {
	seeds := flag.Uint64("seeds", 50_000, "how many schedules to run")
	from := flag.Uint64("from", rand.Uint64(), "the first seed")
	replay := flag.Uint64("replay", 0, "print the trace of this seed")
	whole := flag.Bool("whole", false, "print traces without shrinking them first")
	asJSON := flag.Bool("json", false, "print what was found, or null, and nothing else")
	flag.Parse()
	replaying := false
	flag.Visit(func(f *flag.Flag) { replaying = replaying || f.Name == "replay" })
	if replaying {
		os.Exit(show(*replay, *whole))
	}
	os.Exit(search(*from, *seeds, *whole, *asJSON))
}

// search runs n schedules and returns the exit code.
func search(from, n uint64, whole, asJSON bool) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	begin := time.Now()
	found, tried := sim.Search(ctx, from, n)
	if asJSON {
		if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		return 0
	}
	fmt.Printf("%d schedules from seed %d on, in %.1f s\n", tried, from, time.Since(begin).Seconds())
	switch {
	case found != nil:
		return show(found.Seed, whole)
	case ctx.Err() != nil:
		return 2
	}
	fmt.Println("no promise was broken")
	return 0
}

// show prints the trace of a seed and returns the exit code.
func show(seed uint64, whole bool) int {
	p := sim.NewPlan(seed)
	v := sim.Run(p)
	if v != nil && !whole {
		p = sim.Shrink(p)
	}
	fmt.Printf("seed %d: %d nodes, %d clients, %d steps\n", seed, p.Nodes, p.Clients, len(p.Steps))
	fmt.Println(strings.Join(sim.Trace(p), "\n"))
	if v == nil {
		fmt.Println("no promise was broken")
		return 0
	}
	return 1
}
