package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// mainEnv makes this test program the tool.
const mainEnv = "QUORUMLOCK_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
	}
	if os.Getenv("REDLOCK_HOLDER_FILES") != "" {
		os.Exit(exitInternal) // a test that calls run itself has got past its checks: the tests would start themselves without end
	}
	// Tests that run in parallel wait for processes and TTLs more than they compute. -parallel still counts.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// toolProgram is the tool as a program of its own.
func toolProgram(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	return cmd
}

// call runs one command line.
func call(ctx context.Context, args ...string) (code int, out, errors string) {
	var stdout, stderr bytes.Buffer
	code = run(ctx, args, streams{&stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

func TestRun_HelpAndVersionSucceed(t *testing.T) {
	for want, lines := range map[string][][]string{
		"redlock <command>": {nil, {"help"}, {"--help"}},
		"--nodes=URL":       {{"demo", "--help"}, {"help", "demo"}},
		"--freeze=K":        {{"bench", "--help"}, {"help", "bench"}},
		"redlock ":          {{"version"}, {"--version"}},
	} {
		for _, args := range lines {
			code, out, errors := call(t.Context(), args...)
			assert.Zero(t, code, args)
			assert.Contains(t, out, want, args)
			assert.NotContains(t, out, "A acquires the lock", args)
			assert.Empty(t, errors, args)
		}
	}
}

// refuses requires that the tool refuses each command line that begins with a command, and says what is wrong with it, which is the key.
func refuses(t *testing.T, command []string, lines map[string][]string) {
	t.Helper()
	for want, args := range lines {
		t.Run(want, func(t *testing.T) {
			code, out, errors := call(t.Context(), slices.Concat(command, args)...)
			assert.Equal(t, exitUsage, code)
			assert.Contains(t, errors, "redlock: error: ")
			assert.Contains(t, errors, want)
			assert.NotContains(t, errors, "geheim", "a password")
			assert.Empty(t, out)
		})
	}
}

func TestRun_RefusesInvalidArgumentsAndNamesThem(t *testing.T) {
	refuses(t, nil, map[string][]string{
		"dmeo":                             {"dmeo"},
		"--node":                           {"demo", "--node=x"},
		"node 1: scheme: must be redis://": {"demo", "--nodes=http://:geheim@a,redis://:geheim@b,redis://c"},
		"node 2 is not a URL; did you mean redis:// before it?": {"demo", "--nodes=redis://a,:geheim@localhost:6379"},
		"--nodes: no URL given":                                 {"demo", "--nodes="},
		"--nodes: the demo needs at least 3 nodes":              {"demo", "--nodes=redis://a,redis://b"},
		"node 3 is the same server as node 1: a:6379":           {"demo", "--nodes=redis://a,redis://b,redis://a:6379"},
		"node 1: not a URL":                                     {"demo", "--nodes=redis://a:x,redis://b,redis://c"},
		"--ttl must be between 1s and 1m, not 100ms":            {"demo", "--ttl=100ms"},
		"--ttl must be between 1s and 1m, not 2h":               {"demo", "--ttl=2h"},
		"soon": {"demo", "--ttl=soon"},
		"--timeout must be between 1ms and 2.5s, not -1s: at most a quarter of the TTL": {"demo", "--timeout=-1s"},
		"--timeout must be between 1ms and 2.5s, not 5s":                                {"demo", "--timeout=5s"},
	})
	refuses(t, nil, map[string][]string{
		`error: "m\xff" is not UTF-8`: {"inspect", "--nodes=redis://localhost:1", "m\xff"},
		`"m\xff" is not UTF-8`:        {"run", "--nodes=redis://localhost:1", "m\xff", "true", "\xfe"},
	})
	t.Setenv("REDLOCK_KEY_PREFIX", "p\xff")
	refuses(t, nil, map[string][]string{"$REDLOCK_KEY_PREFIX is not UTF-8": {"inspect", "--nodes=redis://localhost:1", "m"}})
}

func TestExitCode_OfARoundIsThatOfItsOutcome(t *testing.T) {
	var noAnswer error = &nodeerr.ConnectError{Err: nodeerr.ErrTimeout}
	for name, test := range map[string]struct {
		reason error
		nodes  []error // the others have said yes
		want   int
	}{
		"held by another":                        {redlock.ErrTaken, []error{nodeerr.ErrHeld, nodeerr.ErrHeld, nodeerr.ErrHeld}, exitTaken},
		"held by another, the rest is not known": {redlock.ErrTaken, []error{nodeerr.ErrHeld, nodeerr.ErrHeld, nodeerr.ErrHeld, noAnswer, nodeerr.ErrUnneeded}, exitTaken},
		"one that is left over, and nodes down":  {redlock.ErrTaken, []error{nodeerr.ErrHeld, noAnswer, noAnswer}, exitUnavailable},
		"nodes down":                             {redlock.ErrNoQuorum, []error{noAnswer, noAnswer, noAnswer}, exitUnavailable},
		"nodes down, and no TTL on another":      {redlock.ErrNoQuorum, []error{noAnswer, noAnswer, nodeerr.ErrNoExpiry}, exitUnavailable},
		"data of another program":                {redlock.ErrForeign, slices.Repeat([]error{nodeerr.ErrForeign}, 5), exitUsage},
		"lost, and foreign data on one":          {redlock.ErrGone, []error{nodeerr.ErrAbsent, nodeerr.ErrAbsent, nodeerr.ErrForeign}, exitLost},
		"a server under two names":               {redlock.ErrTaken, []error{nodeerr.ErrSameServer, nodeerr.ErrHeld, nodeerr.ErrHeld}, exitUsage},
	} {
		err := &redlock.QuorumError{Op: "acquire", Name: "name", Need: 3, Reason: test.reason, Nodes: make([]redlock.NodeError, 5)}
		for i, e := range test.nodes {
			err.Nodes[i].Err = e
		}
		assert.Equal(t, test.want, exitCode(fmt.Errorf("waited: %w", err)), name)
	}
	renewal := &redlock.QuorumError{Op: "extend", Need: 1, Reason: redlock.ErrNoQuorum, Nodes: []redlock.NodeError{{Err: nodeerr.ErrForeign}}}
	assert.Equal(t, exitLost, exitCode(errors.Join(redlock.ErrExpired, renewal)), "a loss, with the last renewal before")
}

// The danger: the mail of cron has lines that no page shows, with the names of the nodes far to the right.
func TestErrors_HaveALineForEachNode(t *testing.T) {
	code, _, problems := call(t.Context(), "try", "job", "--nodes=redis://127.0.0.1:1,redis://127.0.0.1:2")
	assert.Equal(t, exitUnavailable, code)
	assert.Regexp(t, `^redlock: error: acquire "job": no quorum of nodes: 0 of 2 nodes said yes, 2 needed
  127.0.0.1:[12]: not connected: .*
  (1 other node: not waited for|127.0.0.1:2: not connected: .*)
$`, problems)
}
