package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestServerError_NamesTheCodeAndAddsAHint(t *testing.T) {
	for _, reply := range []string{
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"CLUSTERDOWN Hash slot not served",
		"LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"MOVED 3999 127.0.0.1:6381",
		"NOPERM this user has no permissions to run the 'set' command",
		"NOREPLICAS Not enough good replicas to write.",
		"NOSCRIPT No matching script. Please use EVAL.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
		"WRONGTYPE Operation against a key holding the wrong kind of value",
	} {
		e := wire.NewServerError(reply)
		code, _, _ := strings.Cut(reply, " ")
		require.Equal(t, code, e.Code)
		require.Equal(t, reply, e.Message)
		require.Greater(t, len(e.Error()), len(reply), "it has a hint")
	}
}

func TestServerError_WithoutAHintIsPassedOnAsItIs(t *testing.T) {
	for _, reply := range []string{"ERR something", "SOMETHING", ""} {
		require.EqualError(t, wire.NewServerError(reply), reply)
	}
	require.Len(t, wire.NewServerError("ERR "+strings.Repeat("x", 10_000)).Error(), 512)
}

func TestServerError_OfACommandWithinAScriptHasTheCodeOfThatCommand(t *testing.T) {
	for reply, code := range map[string]string{
		"ERR Error running script (call to f_d34e443058): @user_script:6: @user_script: 6: -READONLY You can't write against a read only replica.":      "READONLY",
		"@user_script: 2: -OOM command not allowed when used memory > 'maxmemory'.":                                                                     "OOM",
		"ERR @user_script: 17: -NOREPLICAS Not enough good replicas to write.":                                                                          "NOREPLICAS",
		"ERR Error running script (call to f_d34): @user_script:6: @user_script: 6: The user executing the script can't run this command or subcommand": "NOPERM",
		"ERR The user executing the script can't run this command or subcommand script: d34, on @user_script:6.":                                        "NOPERM",
		"ERR ACL failure in script: User locker has no permissions to run the 'get' command":                                                            "NOPERM",
		"ERR @user_script: no number": "ERR",
		"ERR Error running script (call to f_d34): @user_script:2: @user_script: 2: Unknown Redis command called from Lua script": "ERR",
	} {
		require.Equal(t, code, wire.NewServerError(reply).Code)
	}
}
