// Gate runs all tests of the project, side by side, and tells a fault from bad luck:
//
//	go run ./internal/dev/gate MODULE...
//
// The tests on servers, processes and a browser run in real time, and a machine that stands still for a second may fail one
// of them. Such a test is run three times more, alone. If it passes each time, the summary lists it under FLAKY and the gate
// passes; with more than three of them it does not. Everything else has one chance: what is deterministic (see plan.go), a data
// race, a panic, a goroutine that was left behind, a test that does not end. The last lines say what failed and why.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

func main() {
	side := flag.Int("jobs", 2*runtime.GOMAXPROCS(0), "how many packages run side by side")
	race := flag.Bool("race", true, "whether packages are tested with the race detector, which needs a C compiler")
	timeout := flag.Duration("timeout", 20*time.Minute, "how long a package may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	jobs, err := plan(ctx, flag.Args(), *race, *timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(2)
	}
	if !gate(ctx, os.Stdout, jobs, *side) {
		os.Exit(1)
	}
}

// gate runs the jobs and reports whether nothing but bad luck failed.
func gate(ctx context.Context, out io.Writer, jobs []job, side int) bool {
	begin := time.Now()
	compile(ctx, jobs)
	fmt.Fprintf(out, "compiled in %.0f s\n", time.Since(begin).Seconds())
	var v verdict
	runAll(ctx, jobs, side, func(r result) {
		fmt.Fprint(out, r.text())
		v.add(r)
	})
	for _, f := range v.doubtful() {
		var again [repeats]result
		for i := range again {
			again[i] = run(ctx, f.alone())
			fmt.Fprintf(out, "again, alone: %s: %s", f.test, again[i].text())
		}
		v.judge(f, again[:])
	}
	fmt.Fprint(out, v.summary(time.Since(begin)))
	return v.ok()
}
