//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTry_HoldsALockOverSeveralCommandsOfAScript(t *testing.T) {
	on, flags := real5(t)
	const script = `
		redlock() { "$TOOL" "$@"; }
		TOKEN=$(redlock try job --ttl 10m) || exit
		trap 'redlock release job --token "$TOKEN"' EXIT
		redlock extend job --token "$TOKEN" --ttl 10h >extended || exit
		cat extended
		(TOKEN=$(redlock try job) || exit; echo a second script has it)
		echo another got $?
		redlock inspect job --full`
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), mainEnv+"=1", "TOOL="+os.Args[0], "REDLOCK_NODES="+strings.TrimPrefix(flags[0], "--nodes="))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `^9h5\d+m`, string(out))
	require.Contains(t, string(out), "another got 75")
	require.Contains(t, string(out), "Held by a majority: 5 of 5")
	require.NotContains(t, string(out), "a second script has it")
	eventuallyHeld(t, on, "job", "")
}
