package main

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/stock"
)

// mainEnv makes this test program the tool.
const mainEnv = "QUORUMLOCK_TEST_MAIN"

func TestMain(m *testing.M) {
	stock.Serve()
	if os.Getenv(mainEnv) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// call runs one command line.
func call(ctx context.Context, args ...string) (code int, out, errors string) {
	var stdout, stderr bytes.Buffer
	code = run(ctx, args, streams{&stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

func TestHelpNamesTheSubcommandsAndSucceeds(t *testing.T) {
	code, out, errors := call(t.Context(), "--help")
	assert.Zero(t, code)
	assert.Contains(t, out, "demo")
	assert.Contains(t, out, "stock")
	assert.Empty(t, errors)

	code, out, errors = call(t.Context(), "demo", "--help")
	assert.Zero(t, code)
	assert.Contains(t, out, "--nodes")
	assert.NotContains(t, out, "A takes the lock")
	assert.Empty(t, errors)
}

func TestArgumentsThatMakeNoSenseAreRefusedAtOnceNamingTheValue(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no command":          {nil, `"demo"`},
		"unknown command":     {[]string{"dmeo"}, "dmeo"},
		"unknown flag":        {[]string{"demo", "--node=x"}, "--node"},
		"unknown scheme":      {[]string{"demo", "--nodes=http://a,redis://b,redis://c"}, `scheme "http"`},
		"empty list":          {[]string{"demo", "--nodes="}, "--nodes: pool: no URL given"},
		"two nodes":           {[]string{"demo", "--nodes=redis://a,redis://b"}, "a:6379, b:6379: 2 given"},
		"a node twice":        {[]string{"demo", "--nodes=redis://a,redis://b,redis://a:6379"}, "a:6379"},
		"bad port":            {[]string{"demo", "--nodes=redis://a:x,redis://b,redis://c"}, "x"},
		"TTL too short":       {[]string{"demo", "--ttl=100ms"}, "--ttl: 100ms"},
		"TTL too long":        {[]string{"demo", "--ttl=2h"}, "--ttl: 2h0m0s"},
		"TTL no time":         {[]string{"demo", "--ttl=soon"}, "soon"},
		"stock TTL too short": {[]string{"stock", "--ttl=1ms"}, "--ttl: 1ms: must be from 100ms"},
		"stock TTL too long":  {[]string{"stock", "--ttl=1m"}, "--ttl: 1m0s"},
		"stock scheme":        {[]string{"stock", "--nodes=http://a"}, `scheme "http"`},
		"stock empty list":    {[]string{"stock", "--nodes="}, "--nodes: pool: no URL given"},
		"stock argument":      {[]string{"stock", "fifty"}, "fifty"},
		"timeout negative":    {[]string{"demo", "--timeout=-1s"}, "--timeout: -1s"},
		"timeout too long":    {[]string{"demo", "--timeout=5s"}, "--timeout: 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errors := call(t.Context(), test.args...)
			assert.Equal(t, 80, code)
			assert.Contains(t, errors, "redlock: error: ")
			assert.Contains(t, errors, test.want)
			assert.Empty(t, out)
		})
	}
}

func TestAPasswordInAURLThatIsRefusedIsNotRepeated(t *testing.T) {
	code, _, errors := call(t.Context(), "demo", "--nodes=http://:geheim@a,redis://:geheim@b,redis://c")
	assert.Equal(t, 80, code)
	assert.NotContains(t, errors, "geheim")
}
