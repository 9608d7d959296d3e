//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// A shell that pastes the line has none of the variables of the job, such as one of somebody who reads a mail of cron.
func TestHint_CanBePasted(t *testing.T) {
	servers := testredis.Real(t, 3, "--requirepass", "geheim")
	password := filepath.Join(t.TempDir(), "pass word")
	require.NoError(t, os.WriteFile(password, []byte("geheim"), 0o600))
	nodes := strings.Join(testredis.URLs(servers), ",")
	config := filepath.Join(t.TempDir(), "redlock.json")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `{"nodes": ["%s"], "key-prefix": "cron:", "password-file": %q}`,
		strings.ReplaceAll(nodes, ",", `", "`), password), 0o600))
	bare := []string{"PATH=" + os.Getenv("PATH"), mainEnv + "=1", "GORACE=atexit_sleep_ms=0"}
	for name, test := range map[string]struct{ args, env []string }{
		"a file":                   {[]string{"--config=" + config}, nil},
		"a file, in a variable":    {nil, []string{"REDLOCK_CONFIG=" + config}},
		"a prefix beside it":       {[]string{"--config", config, "--key-prefix", "a prefix:"}, nil},
		"a prefix in a variable":   {[]string{"--config=" + config}, []string{"REDLOCK_KEY_PREFIX=it's:"}},
		"flags":                    {[]string{"--nodes=" + nodes, "--key-prefix=p:", "--password-file=" + password}, nil},
		"variables":                {nil, []string{"REDLOCK_NODES=" + nodes, "REDLOCK_PASSWORD_FILE=" + password}},
		"--nodes in the command's": {[]string{"--config=" + config}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tool := func(args ...string) *exec.Cmd {
				cmd := toolProgram(append(append([]string{"run", "--timeout=5s"}, test.args...), args...)...)
				cmd.Env = slices.Concat(bare, test.env)
				return cmd
			}
			first := start(t, tool("--metadata=the first", "--json", "my job", "cat"))
			first.event("started")
			out, err := tool("-n", "my job", "echo", "--nodes=x", "--key-prefix=y").CombinedOutput()
			require.Error(t, err)
			before, hint, found := strings.Cut(strings.TrimSpace(string(out)), "; see: ")
			require.True(t, found, "%s", out)
			assert.Equal(t, `redlock: error: the lock "my job" is held by "the first"`, before)
			pasted := exec.Command("sh", "-c", `redlock() { "$TOOL" "$@" --timeout=5s; }; `+hint)
			pasted.Env = slices.Concat(bare, []string{"TOOL=" + os.Args[0]})
			shown, err := pasted.CombinedOutput()
			require.NoError(t, err, "%s: %s", hint, shown)
			assert.Contains(t, string(shown), "Held by a majority", hint)
			assert.NotContains(t, hint, "=x")
			first.endsWith(0)
		})
	}
}

func TestHint_HasNoPassword(t *testing.T) {
	const secret = "geheim"
	for url, want := range map[string]string{
		"redis://:geheim@h:1/2":  "redis://:...@h:1/2",
		"redis://user:geheim@h":  "redis://user:...@h",
		"redis://user@h":         "redis://user@h",
		"rediss://h:1?db=2":      "rediss://h:1?db=2",
		"redis://u:geheim@x@h":   "redis://u:...@h",
		"redis://u:a%2Fgeheim@h": "redis://...",
		"redis+sentinel://a:1,b/m?sentinel_password=geheim@y": "redis+sentinel://...",
		"redis+sentinel://u:geheim@a:1,b/m":                   "redis+sentinel://u:...@a:1,b/m",
		"unix:///run/redis.sock":                              "unix:///run/redis.sock",
	} {
		got := withoutPassword(url)
		assert.Equal(t, want, got)
		assert.NotContains(t, got, secret)
	}
}
