package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// step is some benchmarks that run for the same time.
type step struct {
	what    string
	pattern string // of benchmarks' names
	time    string // for each benchmark, or how often it runs
	passes  int    // in so many passes only; 0 means in each
	env     string // a variable for them, or nothing
}

// steps is one pass. Many short passes rather than few long ones: what else goes on around the machine changes from
// one second to the next, and a ratio is taken within a pass.
var steps = []step{
	{what: "A, acquire", pattern: "^BenchmarkA_", time: "400ms"},
	{what: "B, 64 callers", pattern: "^BenchmarkB_", time: "500ms"},
	{what: "S, fresh names", pattern: "^BenchmarkS_", time: "500ms"},
	{what: "C, one hot name", pattern: "^BenchmarkC_", time: "5x"},
	{what: "D, one hot name, 8 processes", pattern: "^BenchmarkD_", time: "10x"},
	{what: "P, one hot name, far nodes", pattern: "^BenchmarkP_", time: "8x"},
	{what: "Q, one hot name, 8 processes, far nodes", pattern: "^BenchmarkQ_", time: "10x"},
	{what: "R, 100 names, 1,000 waiters", pattern: "^BenchmarkR_", time: "8x"},
	{what: "E, frozen nodes", pattern: "^BenchmarkE_/subject=quorumlock", time: "1s"},
	{what: "E, frozen nodes, peers", pattern: "^BenchmarkE_/subject=redsync", time: "200ms"},
	{what: "F, connections", pattern: "^BenchmarkF_", time: "1x"},
	{what: "G, growth", pattern: "^BenchmarkG_", time: "20s", passes: 1},
	{what: "H, allocations", pattern: "^BenchmarkH_", time: "700x"},
	{what: "T, eight names together", pattern: "^BenchmarkT_", time: "400ms"},
	{what: "U, readers of one name", pattern: "^BenchmarkU_", time: "500ms"},
	{what: "V, a writer among readers", pattern: "^BenchmarkV_", time: "20x"},
	{what: "W, slots of one name", pattern: "^BenchmarkW_", time: "20x"},
	{what: "Y, moves, a set, writers and readers, two limits, redsync", pattern: "^BenchmarkY[12569]_", time: "15x"},
	{what: "Y, several busy names", pattern: "^BenchmarkY3_", time: "30x"},
	{what: "Y, a patient writer", pattern: "^BenchmarkY4_", time: "10x"},
	{what: "Y, tries at one instant", pattern: "^BenchmarkY7_", time: "200x"},
	{what: "Y, one after the other", pattern: "^BenchmarkY8_", time: "20x"},
	{what: "Y, near and far", pattern: "^BenchmarkY10_", time: "40x"},
	{what: "I, number of nodes", pattern: "^BenchmarkI_", time: "250ms"},
	{what: "M, cost over the number of nodes", pattern: "^BenchmarkM_", time: "300ms"},
	{what: "N, telemetry, acquire", pattern: "^BenchmarkN_", time: "250ms"},
	{what: "O, telemetry, 64 callers", pattern: "^BenchmarkO_", time: "400ms"},
	{what: "K, waking up", pattern: "^BenchmarkK_", time: "5x"},
	{what: "X, a restart", pattern: "^BenchmarkX_", time: "20x", passes: 1},
	{what: "J, held locks", pattern: "^BenchmarkJ_", time: "10x", passes: 1, env: "QUORUMLOCK_BENCH_HELD=10000"},
	{what: "L, held locks, long TTL", pattern: "^BenchmarkL_", time: "2x", passes: 1, env: "QUORUMLOCK_BENCH_HELD=100000"},
}

// measure returns what the benchmarks print in some passes, for benchfmt, with the machine in front. only is the letter
// of the benchmarks to run; empty means all.
func measure(ctx context.Context, only string, passes int) ([]byte, error) {
	var raw bytes.Buffer
	if err := describe(ctx, &raw, passes); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bench.test")
	if _, err := output(ctx, "go", "test", "-c", "-o", binary, "."); err != nil {
		return nil, err
	}
	steps := slices.DeleteFunc(slices.Clone(steps), func(s step) bool {
		return only != "" && !strings.HasPrefix(s.what, only+",")
	})
	if len(steps) == 0 {
		return nil, fmt.Errorf("there is no benchmark %q", only)
	}
	for pass := range passes {
		for i, s := range steps {
			if s.passes > 0 && pass >= s.passes {
				continue
			}
			begin := time.Now()
			fmt.Printf("pass %d of %d: %s", pass+1, passes, s.what)
			text, err := outputWith(ctx, s.env, binary, "-test.run=^$", "-test.bench="+s.pattern, "-test.benchtime="+s.time)
			if err != nil {
				fmt.Println()
				return nil, err
			}
			keep(&raw, text, pass == 0 && i == 0)
			fmt.Printf(": %.0f s\n", time.Since(begin).Seconds())
		}
	}
	return raw.Bytes(), nil
}

// keep adds the lines of benchmarks, and those about the system if they are wanted.
func keep(raw *bytes.Buffer, text string, system bool) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Benchmark") || system && strings.Contains(line, ": ") {
			raw.WriteString(line)
		}
	}
}

// output runs a command. Its error holds what the command has said.
func output(ctx context.Context, name string, args ...string) (string, error) {
	return outputWith(ctx, "", name, args...)
}

// outputWith adds a variable, KEY=value, to the environment.
func outputWith(ctx context.Context, env, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	if env != "" {
		cmd.Env = append(os.Environ(), env)
	}
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, out.String(), problems.String())
	}
	return out.String(), nil
}
