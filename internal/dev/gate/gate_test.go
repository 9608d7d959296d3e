package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each case is a module of its own, with one package. The tests in it keep in files how often they ran.
func TestGate_TellsAFaultFromBadLuck(t *testing.T) {
	const runs = `
func runs(t *testing.T) int {
	f, _ := os.OpenFile("runs."+filepath.Base(t.Name()), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	defer f.Close()
	f.Write([]byte("x"))
	info, _ := f.Stat()
	return int(info.Size())
}
`
	once := func(name string) string {
		return `func ` + name + `(t *testing.T) { if runs(t) == 1 { t.Fatal("bad luck with seed 17") } }` + "\n"
	}
	for name, test := range map[string]struct {
		pkg, code string
		want      []string // lines of the summary, after the first that has the first
		passes    bool
	}{
		"all pass":        {"redlock", `func TestA(*testing.T) {}; func TestB(t *testing.T) { t.Skip() }`, []string{"SKIPPED: redlock.TestB", "1 passed, 0 failed, 0 flaky, 1 skipped, in 1 packages"}, true},
		"once":            {"redlock", once("TestA"), []string{"FLAKY", "TestA (redlock): run alone, it passed 3 of 3 times", "a_test.go:", "bad luck with seed 17", "1 passed, 0 failed, 1 flaky"}, true},
		"in a subtest":    {"redlock", `func TestA(t *testing.T) { t.Run("b", func(t *testing.T) { if runs(t) == 1 { t.Error("bad luck") } }) }` + "\n", []string{"FLAKY", "TestA (redlock)", "bad luck"}, true},
		"every other run": {"redlock", `func TestA(t *testing.T) { if runs(t)%2 == 1 { t.Fatal("odd") } }`, []string{"--- FAIL: TestA (redlock): run alone, it passed 2 of 3 times", "odd", "0 passed, 1 failed, 0 flaky"}, false},
		"always":          {"redlock", `func TestA(t *testing.T) { t.Log("noise"); t.Fatal("the reason") }`, []string{"--- FAIL: TestA (redlock): run alone, it passed 0 of 3 times", "the reason"}, false},
		"four":            {"redlock", once("TestA") + once("TestB") + once("TestC") + once("TestD"), []string{"--- FAIL: TestA (redlock): more than 3 tests failed", "--- FAIL: TestD", "4 failed"}, false},
		"three":           {"redlock", once("TestA") + once("TestB") + once("TestC"), []string{"FLAKY", "TestA", "TestC", "3 passed, 0 failed, 3 flaky"}, true},
		"deterministic":   {"internal/quorum", once("TestA"), []string{"--- FAIL: TestA (internal/quorum): chance cannot fail it", "bad luck with seed 17", "0 passed, 1 failed"}, false},
		"virtual time":    {"redlock", `func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { if runs(t) == 1 { t.Fatal("reason") } }) }`, []string{"--- FAIL: TestA (redlock): chance cannot fail it", "reason"}, false},
		"data race":       {"redlock", `func TestA(t *testing.T) { if runs(t) == 1 { n := 0; done := make(chan int); go func() { n++; done <- 1 }(); n++; <-done } }`, []string{"--- FAIL: TestA (redlock): a data race", "WARNING: DATA RACE", "1 failed"}, false},
		"panic":           {"redlock", `func TestA(t *testing.T) { if runs(t) == 1 { panic("the reason") } }`, []string{"--- FAIL: TestA (redlock): it crashed", "panic: the reason"}, false},
		"leak":            {"redlock", `func TestA(*testing.T) {}; func TestMain(m *testing.M) { m.Run(); fmt.Println("goleak: Errors on successful test run: found unexpected goroutines"); os.Exit(1) }`, []string{"--- FAIL: redlock: a goroutine was left behind", "found unexpected goroutines"}, false},
		"exit":            {"redlock", `func TestA(*testing.T) { fmt.Println("the reason"); os.Exit(3) }`, []string{"--- FAIL: TestA (redlock): ", "the reason", "--- FAIL: redlock: the process ended within a test"}, false},
		"does not start":  {"redlock", `func TestA(*testing.T) {}; func TestMain(m *testing.M) { fmt.Println("no server"); os.Exit(1) }`, []string{"--- FAIL: redlock: the package failed, and none of its tests", "no server"}, false},
		"hang":            {"redlock", `func TestA(*testing.T) { time.Sleep(time.Hour) }`, []string{"--- FAIL: TestA (redlock): it did not end", "panic: test timed out after 5s", "TestA"}, false},
		"hang alone":      {"redlock", `func TestA(t *testing.T) { if runs(t) == 1 { t.Fatal() }; time.Sleep(time.Hour) }`, []string{"--- FAIL: TestA (redlock): run alone: it did not end", "test timed out"}, false},
		"does not build":  {"redlock", `func TestA(*testing.T) { undefined() }`, []string{"--- FAIL: redlock: it does not build", "undefined: undefined"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "data race" && !raceDetector {
				t.Skip("only the race detector finds it")
			}
			dir := t.TempDir()
			write(t, dir, "go.mod", "module "+strings.TrimSuffix(root, "/")+"\n\ngo 1.25\n")
			write(t, filepath.Join(dir, test.pkg), "a_test.go", `package a
import ("fmt"; "os"; "path/filepath"; "testing"; "testing/synctest"; "time")
var _, _ = fmt.Sprint, synctest.Test
const _ = time.Second
`+runs+test.code)
			jobs, err := plan(t.Context(), []string{dir}, raceDetector, 5*time.Second)
			require.NoError(t, err)
			var out bytes.Buffer
			require.Equal(t, test.passes, gate(t.Context(), &out, jobs, 1), out.String())
			_, rest, _ := strings.Cut(out.String(), "\t"+root+test.pkg+"\t") // what follows the run
			for _, line := range test.want {
				_, after, ok := strings.Cut(rest, line)
				require.True(t, ok, "%q is not there, or not in its place:\n%s", line, out.String())
				rest = after
			}
		})
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func TestSummary_IsShortWhateverFails(t *testing.T) {
	for failures := range 50 {
		var v verdict
		for i := range failures {
			f := failure{test: fmt.Sprint("Test", i), reason: "reason"}
			for line := range 100 {
				f.output = append(f.output, fmt.Sprintf("line %d of %s\n", line, strings.Repeat("ä", 1000)))
			}
			v.failed = append(v.failed, f)
		}
		text := v.summary(0)
		require.LessOrEqual(t, strings.Count(text, "\n"), 36, text)
		require.LessOrEqual(t, len(text), 40*300)
		require.Contains(t, text, fmt.Sprintf("0 passed, %d failed", failures))
	}
}

func TestEssence_BeginsWhereTheTestFailed(t *testing.T) {
	require.Equal(t, []string{"soak_test.go:10: seed 5", "a_test.go:12:", "Error: Not equal:", "expected: 1", "actual : 2", "testredis.go:95: redis-server 127.0.0.1:1:"}, essence(strings.SplitAfter(`=== RUN   TestA
    soak_test.go:10: seed 5
    soak_test.go:11: 17 locks
    a_test.go:12: 
        	Error Trace:	/home/a/a_test.go:12
        	            				/usr/local/go/src/sync/waitgroup.go:258
        	Error:      	Not equal: 
        	            	expected: 1
        	            	actual  : 2
        	Test:       	TestA
    testredis.go:95: redis-server 127.0.0.1:1:
        9511:C 23 Nov 2026 12:30:12.243 # Redis version=7.0.15
--- FAIL: TestA (0.00s)
`, "\n")))
}
