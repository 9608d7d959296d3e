// Command explore runs the protocol through simulated schedules, or one of them again.
//
//	explore -seeds 1000000          a million schedules, from a random seed on
//	explore -from 17 -seeds 1       schedule 17
//	explore -replay 17              the story of schedule 17
//
// It exits with 1 when a promise is broken, after the story, shrunk to what is needed.
package main

import (
	"context"
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
	from := flag.Uint64("from", 0, "the first seed; random where it is not given")
	replay := flag.Uint64("replay", 0, "tell the story of one seed")
	whole := flag.Bool("whole", false, "tell it without shrinking it first")
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if given["replay"] {
		os.Exit(tell(*replay, *whole))
	}
	if !given["from"] {
		*from = rand.Uint64()
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	begin := time.Now()
	fmt.Printf("from seed %d\n", *from)
	found, tried := sim.Search(ctx, *from, *seeds)
	fmt.Printf("%d schedules in %.1f s\n", tried, time.Since(begin).Seconds())
	if found != nil {
		os.Exit(tell(found.Seed, *whole))
	}
	if ctx.Err() != nil {
		os.Exit(2)
	}
	fmt.Println("no promise was broken")
}

// tell prints the story of a seed and returns the exit code.
func tell(seed uint64, whole bool) int {
	p := sim.NewPlan(seed)
	v := sim.Run(p)
	if v != nil && !whole {
		p = sim.Shrink(p)
	}
	fmt.Printf("seed %d: %d nodes, %d clients, %d steps\n", seed, p.Nodes, p.Clients, len(p.Steps))
	fmt.Println(strings.Join(sim.Story(p), "\n"))
	if v == nil {
		fmt.Println("no promise was broken")
		return 0
	}
	return 1
}
