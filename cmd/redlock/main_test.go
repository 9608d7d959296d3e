package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

// mainEnv makes this test program the tool.
const mainEnv = "QUORUMLOCK_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
	}
	// Tests that run in parallel wait for processes and TTLs more than they compute. -parallel still counts.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
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

func TestRun_RefusesInvalidArgumentsAndNamesThem(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown command":  {[]string{"dmeo"}, "dmeo"},
		"unknown flag":     {[]string{"demo", "--node=x"}, "--node"},
		"unknown scheme":   {[]string{"demo", "--nodes=http://a,redis://b,redis://c"}, "node 1: scheme: must be redis://"},
		"no scheme":        {[]string{"demo", "--nodes=redis://a,localhost:6379"}, "node 2 is not a URL; did you mean redis:// before it?"},
		"empty list":       {[]string{"demo", "--nodes="}, "--nodes: no URL given"},
		"two nodes":        {[]string{"demo", "--nodes=redis://a,redis://b"}, "--nodes: the demo needs at least 3 nodes"},
		"a node twice":     {[]string{"demo", "--nodes=redis://a,redis://b,redis://a:6379"}, "node 3 is the same server as node 1: a:6379"},
		"bad port":         {[]string{"demo", "--nodes=redis://a:x,redis://b,redis://c"}, "node 1: not a URL"},
		"TTL too short":    {[]string{"demo", "--ttl=100ms"}, "--ttl must be between 1s and 1m, not 100ms"},
		"TTL too long":     {[]string{"demo", "--ttl=2h"}, "--ttl must be between 1s and 1m, not 2h"},
		"TTL no time":      {[]string{"demo", "--ttl=soon"}, "soon"},
		"timeout negative": {[]string{"demo", "--timeout=-1s"}, "--timeout must be between 1ms and 2.5s, not -1s: at most a quarter of the TTL"},
		"timeout too long": {[]string{"demo", "--timeout=5s"}, "--timeout must be between 1ms and 2.5s, not 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errors := call(t.Context(), test.args...)
			assert.Equal(t, exitUsage, code)
			assert.Contains(t, errors, "redlock: error: ")
			assert.Contains(t, errors, test.want)
			assert.Empty(t, out)
		})
	}
}

func TestRun_RefusesWhatIsNotUTF8(t *testing.T) {
	code, _, errors := call(t.Context(), "inspect", "--nodes=redis://localhost:1", "m\xff")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errors, `"m\xff" is not UTF-8`)
	code, _, errors = call(t.Context(), "run", "--nodes=redis://localhost:1", "m\xff", "true", "\xfe")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errors, `"m\xff" is not UTF-8`)
	t.Setenv("REDLOCK_KEY_PREFIX", "p\xff")
	code, _, errors = call(t.Context(), "inspect", "--nodes=redis://localhost:1", "m")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errors, "$REDLOCK_KEY_PREFIX is not UTF-8")
}

func TestRun_NeverPrintsAPassword(t *testing.T) {
	for _, urls := range []string{
		"http://:geheim@a,redis://:geheim@b,redis://c",
		":geheim@localhost:6379,redis://b,redis://c",
	} {
		code, _, errors := call(t.Context(), "demo", "--nodes="+urls)
		assert.Equal(t, exitUsage, code)
		assert.NotContains(t, errors, "geheim")
	}
}
