package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// result is what came out of the tests of a package.
type result struct {
	job
	ok      bool
	took    time.Duration
	cpu     time.Duration // of the compiler too
	passed  int           // tests, without their subtests
	skipped []string
	failed  []failure
	broken  string   // what chance cannot do, if it did; empty: nothing
	output  []string // lines that belong to no test
}

// failure is a test that failed, or what is wrong with a package beside its tests.
type failure struct {
	job
	test   string   // empty: none
	output []string // its lines, and those of its subtests that failed
	reason string   // why it counts; empty: that is open
}

// event is a line of go test -json (go doc cmd/test2json).
type event struct{ Action, Test, Output string }

// runAll runs the jobs, as many side by side as side, and calls ended for each that has ended.
func runAll(ctx context.Context, jobs []job, side int, ended func(result)) {
	results, places := make(chan result), make(chan struct{}, side)
	go func() {
		for _, j := range jobs {
			places <- struct{}{}
			go func() {
				r := run(ctx, j)
				<-places
				results <- r
			}()
		}
	}()
	for range jobs {
		ended(<-results)
	}
}

// run runs a job to its end.
func run(ctx context.Context, j job) result {
	begin := time.Now()
	cmd := exec.CommandContext(ctx, "go", j.args()...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // tests that started containers remove them
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // otherwise each process with the race detector sleeps for a second at its end
	r := result{job: j, ok: true}
	output, err := cmd.StdoutPipe()
	cmd.Stderr = cmd.Stdout
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		r.read(output)
		err = cmd.Wait()
	}
	if err != nil && r.ok {
		r.ok, r.broken = false, "go test: "+err.Error()
	}
	r.took = time.Since(begin)
	if state := cmd.ProcessState; state != nil {
		r.cpu = state.UserTime() + state.SystemTime()
	}
	return r
}

// read takes in the output of go test -json. Lines that are no event are output.
func (r *result) read(from io.Reader) {
	lines := map[string][]string{} // by test
	failed := map[string][]string{}
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n')
		if line == "" && err != nil {
			break
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			e = event{Action: "output", Output: line}
		}
		top, _, isSub := strings.Cut(e.Test, "/")
		switch e.Action {
		case "output", "build-output":
			lines[e.Test] = append(lines[e.Test], e.Output)
			if r.broken == "" {
				r.broken = whatBroke(e.Output)
			}
		case "pass", "skip", "fail":
			if e.Test == "" {
				r.ok = r.ok && e.Action != "fail"
				continue
			}
			if e.Action == "fail" {
				failed[top] = append(failed[top], lines[e.Test]...)
			}
			delete(lines, e.Test)
			switch {
			case isSub:
			case e.Action == "pass":
				r.passed++
			case e.Action == "skip":
				r.skipped = append(r.skipped, e.Test)
			default:
				r.failed = append(r.failed, failure{job: r.job, test: e.Test, output: failed[top]})
			}
		case "build-fail":
			r.ok, r.broken = false, "it does not build"
		}
	}
	r.output = lines[""]
	delete(lines, "")
	for _, test := range slices.Sorted(maps.Keys(lines)) { // the process ended within them
		top, _, _ := strings.Cut(test, "/")
		if i := len(r.failed) - 1; i >= 0 && r.failed[i].test == top {
			r.failed[i].output = append(r.failed[i].output, lines[test]...)
		} else {
			r.failed = append(r.failed, failure{job: r.job, test: top, output: lines[test]})
		}
		if r.broken == "" {
			r.broken = "the process ended within a test"
		}
	}
}

// whatBroke says what a line of output tells that no second run can make good.
func whatBroke(line string) string {
	switch {
	case strings.Contains(line, "WARNING: DATA RACE"):
		return "a data race"
	case strings.HasPrefix(line, "panic: test timed out"):
		return "it did not end"
	case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "):
		return "it crashed"
	case strings.HasPrefix(line, "goleak: "):
		return "a goroutine was left behind"
	case strings.HasPrefix(line, "signal: "):
		return "it was killed"
	}
	return ""
}

// text returns what is printed when the job has ended.
func (r result) text() string {
	times := fmt.Sprintf("%s\t%.1fs\tcpu %.1fs\n", r.ImportPath, r.took.Seconds(), r.cpu.Seconds())
	if r.ok {
		return "ok  \t" + times
	}
	var text strings.Builder
	for _, f := range r.failed {
		fmt.Fprint(&text, strings.Join(f.output, ""))
	}
	fmt.Fprintf(&text, "%sFAIL\t%s", strings.Join(r.output, ""), times)
	return text.String()
}
