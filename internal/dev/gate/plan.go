package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const root = "github.com/quorumlock/quorumlock/"

// slowest are the packages that take longest, in this order. They start first, so that no CPU is idle at the end.
var slowest = []string{
	"integration", "cmd/redlock", "redlock", "internal/dev/sim/prove", "internal/dev/sim", "integration/docs", "integration/page", "promredlock",
	"cmd/redlock/internal/doctor", "internal/dev/tenants", "internal/node", "cmd/redlock/internal/web", "internal/dev/stack",
}

// withoutRace are packages without goroutines of their own, which the race detector makes several times slower, and the
// benchmarks, of which it changes what they allocate.
var withoutRace = []string{"internal/dev/sim", "internal/dev/sim/prove", "bench"}

// oneChance are the packages, and the tests, that chance cannot fail: the deterministic ones, and the invariants of the two
// soak tests. So cannot a test under virtual time (inBubble).
var oneChance = []string{
	"clock", "internal/clocktest", "internal/dev/api", "internal/quorum", "internal/dev/sim", "internal/dev/sim/prove", "internal/dev/stack", "internal/token",
	"integration.TestNothingGrowsAndNoLockFailsWhileANodeIsFrozenUnderLoad",
	"internal/dev/tenants.TestTenants_NothingThatOthersDoBreaksAPromise",
}

// job is a package to test.
type job struct {
	Dir        string
	ImportPath string
	Module     struct{ Dir string }
	timeout    time.Duration
	race       bool   // with the race detector
	only       string // the one test to run; empty: all
}

func (j job) name() string { return strings.TrimPrefix(j.ImportPath, root) }

// raceFlag returns the argument of the go command that says whether the race detector watches.
func (j job) raceFlag() string {
	return "-race=" + strconv.FormatBool(j.race && !slices.Contains(withoutRace, j.name()))
}

// args returns the arguments of the go command. The linters have vetted everything.
func (j job) args() []string {
	args := []string{"-C", j.Dir, "test", "-json", "-count=1", "-vet=off", "-timeout=" + j.timeout.String(), j.raceFlag()}
	switch {
	case j.only != "":
		args = append(args, "-run=^"+j.only+"$")
	case j.name() == "bench":
		args = append(args, "-bench=.", "-benchtime=1x")
	}
	return append(args, ".")
}

// hasOneChance reports whether chance cannot fail the test.
func (j job) hasOneChance(test string) bool {
	return slices.Contains(oneChance, j.name()) || slices.Contains(oneChance, j.name()+"."+test) ||
		strings.HasPrefix(test, "Benchmark") || inBubble(j.Dir, test)
}

// plan returns all packages that have tests, the slowest first.
func plan(ctx context.Context, modules []string, race bool, timeout time.Duration) (jobs []job, err error) {
	for _, module := range modules {
		cmd := exec.CommandContext(ctx, "go", "-C", module, "list", "-json=Dir,ImportPath,Module,TestGoFiles,XTestGoFiles", "./...")
		list, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return nil, fmt.Errorf("%s: %w\n%s", cmd, err, exit.Stderr)
		} else if err != nil {
			return nil, err
		}
		found := json.NewDecoder(strings.NewReader(string(list)))
		for {
			var p struct {
				job
				TestGoFiles, XTestGoFiles []string
			}
			if err := found.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", cmd, err)
			}
			if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
				p.race, p.timeout = race, timeout
				jobs = append(jobs, p.job)
			}
		}
	}
	rank := func(j job) int {
		if i := slices.Index(slowest, j.name()); i >= 0 {
			return i
		}
		return len(slowest)
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return rank(a) - rank(b) })
	return jobs, nil
}

// compile compiles what the jobs need, once. Several go commands that start side by side would compile the same packages.
// A package that does not build is told of by its test.
func compile(ctx context.Context, jobs []job) {
	wanted := map[[2]string][]string{} // packages, by module and raceFlag
	for _, j := range jobs {
		as := [2]string{j.Module.Dir, j.raceFlag()}
		wanted[as] = append(wanted[as], j.ImportPath)
	}
	for as, packages := range wanted {
		args := []string{"-C", as[0], "list", "-export", "-deps", "-test", as[1]}
		_ = exec.CommandContext(ctx, "go", append(args, packages...)...).Run()
	}
}

// inBubble reports whether the test calls synctest.Test, so that time is virtual.
func inBubble(dir, test string) (found bool) {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // go test says it better
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == test {
				ast.Inspect(f, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					found = found || ok && types.ExprString(call.Fun) == "synctest.Test"
					return !found
				})
			}
		}
	}
	return found
}
