package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestTry_LeavesTheLockToTheTokenThatItPrints(t *testing.T) {
	on, flags := real5(t)
	token := strings.TrimSuffix(succeed(t, flags, "try", "name", "--ttl=1h", "--key-prefix=lock:"), "\n")
	eventuallyHeld(t, on, "lock:name", token)
	require.Regexp(t, fmt.Sprintf(`^[A-Z2-7]{8}\.[\w-]{28}:.+:%d$`, os.Getppid()), token)
	ttl, err := redis.Int64(on[0].Do("PTTL", "lock:name"))
	require.NoError(t, err)
	require.Greater(t, ttl, (eternity / 2).Milliseconds())
	flags = append(flags, "--key-prefix=lock:")

	errors := refused(t, exitTaken, flags, "try", "name")
	require.Contains(t, errors, "lock is taken; see: redlock inspect --nodes redis://")
	require.Equal(t, 1, strings.Count(errors, "\n"))

	left, err := time.ParseDuration(strings.TrimSpace(succeed(t, flags, "extend", "name", "--token="+token, "--ttl=10h")))
	require.NoError(t, err)
	require.Greater(t, left, 9*time.Hour)
	require.LessOrEqual(t, left, 10*time.Hour)
	left, err = time.ParseDuration(strings.TrimSpace(succeed(t, flags, "extend", "name", "--token="+token, "--ttl=1m")))
	require.NoError(t, err)
	require.Greater(t, left, 9*time.Hour, "it lasts longer already")

	require.Empty(t, succeed(t, flags, "release", "name", "--token="+token))
	eventuallyHeld(t, on, "lock:name", "")
	for _, command := range []string{"release", "unlock", "extend"} {
		errors := refused(t, exitLost, flags, command, "name", "--token="+token)
		require.Contains(t, errors, "lock is not held", command)
	}
}

func TestTry_PrintsJSON(t *testing.T) {
	on, flags := real5(t)
	taken := decoded[heldJSON](t, succeed(t, flags, "try", "name", "--ttl=1h", "--fencing", "--metadata=job of cron", "--json"))
	require.Equal(t, "name", taken.Name)
	require.NotZero(t, taken.Fence)
	require.True(t, strings.HasSuffix(taken.Token, ":job of cron"), taken.Token)
	eventuallyHeld(t, on[:1], "name", fmt.Sprintf("%s|%d", taken.Token, taken.Fence))
	require.Greater(t, taken.Validity, (eternity / 2).Milliseconds())
	require.LessOrEqual(t, taken.Validity, eternity.Milliseconds())
	require.WithinRange(t, taken.Deadline, time.Now().Add(eternity/2), time.Now().Add(eternity))

	t.Setenv("REDLOCK_TOKEN", taken.Token)
	extended := decoded[heldJSON](t, succeed(t, flags, "extend", "name", "--ttl=5h", "--json"))
	require.Equal(t, taken.Token, extended.Token)
	require.Equal(t, taken.Fence, extended.Fence)
	require.Greater(t, extended.Validity, (4 * time.Hour).Milliseconds())
	succeed(t, flags, "release", "name")
	eventuallyHeld(t, on, "name", "")

	without := decoded[heldJSON](t, succeed(t, flags, "try", "name", "--metadata=", "--json"))
	require.NotContains(t, without.Token, ":")
	require.Zero(t, without.Fence)
}

func TestTry_WaitsForTheLock(t *testing.T) {
	on, flags := real5(t)
	token := strings.TrimSpace(succeed(t, flags, "try", "name", "--ttl=1h"))
	eventuallyHeld(t, on, "name", token)
	require.Contains(t, refused(t, exitTaken, flags, "try", "name", "--wait=2s"), "lock is taken")

	second := make(chan string)
	go func() {
		_, out, errors := call(t.Context(), with(flags, "try", "name", "--wait=1h")...)
		second <- strings.TrimSpace(out + errors)
	}()
	succeed(t, flags, "release", "name", "--token="+token)
	next := <-second
	require.NotEqual(t, token, next)
	held := 0 // on a majority: the release may have come to the others after the acquire
	for _, value := range values(t, on, "name") {
		if value == next {
			held++
		}
	}
	require.GreaterOrEqual(t, held, 3)
}

func TestTry_FailsWithoutAQuorum(t *testing.T) {
	on, flags := real5(t)
	token := strings.TrimSpace(succeed(t, flags, "try", "name", "--ttl=1h"))
	eventuallyHeld(t, on, "name", token)
	on[0].Freeze()
	on[1].Stop()
	flags = append(flags, "--timeout=2s")
	refused(t, exitTaken, flags, "try", "name")
	on[2].Freeze()
	for _, args := range [][]string{
		{"try", "other"}, {"try", "other", "--wait=100ms"}, {"extend", "name", "--token=" + token}, {"release", "name", "--token=" + token},
		{"unlock", "name", "--force", "--yes"}, {"inspect", "name"}, {"list"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			require.Contains(t, refused(t, exitUnavailable, flags, args...), "no quorum")
		})
	}
}

func TestTry_TakesNoLockWhoseTokenNobodyReads(t *testing.T) {
	on, flags := real5(t)
	broken := errors.New("nobody reads")
	code := run(t.Context(), with(flags, "try", "name", "--ttl=1h"), streams{failingWriter{broken}, failingWriter{broken}})
	require.Equal(t, exitOutput, code)
	eventuallyHeld(t, on, "name", "")
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestTry_EndsWithItsContext(t *testing.T) {
	on, flags := real5(t)
	do(t, on, "SET", "name", "theirs", "PX", eternity.Milliseconds())
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan int)
	go func() {
		code, _, _ := call(ctx, with(flags, "try", "name", "--wait=1h")...)
		ended <- code
	}()
	cancel(supervise.Interrupted{Signal: os.Interrupt})
	require.Equal(t, exitSignal+2, <-ended)
}

func TestExtend_DoesNotReleaseTheLockOfAnother(t *testing.T) {
	on, flags := real5(t)
	do(t, on, "SET", "name", "theirs", "PX", eternity.Milliseconds())
	do(t, on[:2], "SET", "name", "ours", "PX", eternity.Milliseconds())
	do(t, on[2:3], "DEL", "name")
	for _, command := range []string{"extend", "release"} {
		refused(t, exitLost, flags, command, "name", "--token=ours")
		require.Equal(t, []string{"ours", "ours", "", "theirs", "theirs"}, values(t, on, "name"))
	}
}

// inTheWay is what the tool says of redlock.ErrForeign.
func inTheWay() string { return display.Error(redlock.ErrForeign) }

func TestLockCommands_RefuseInvalidArgumentsAndNameThem(t *testing.T) {
	const nodes = "--nodes=redis://127.0.0.1:1"
	t.Setenv("REDLOCK_TOKEN", "")
	refuses(t, nil, map[string][]string{
		"no nodes: set --nodes":                                 {"try", "name"},
		"--ttl must be between 100ms and 24h, not 1ms":          {"try", nodes, "name", "--ttl=1ms"},
		"--ttl must be between 100ms and 24h, not 48h":          {"extend", nodes, "name", "--token=x", "--ttl=48h"},
		"--wait must be between 0s and 24h, not -1s":            {"try", nodes, "name", "--wait=-1s"},
		"--restart-guard must be at least --ttl (10m), not 5m":  {"try", nodes, "name", "--ttl=10m", "--restart-guard=5m"},
		"--restart-guard must be at least --ttl (11m), not 5m":  {"extend", nodes, "name", "--token=T", "--ttl=11m", "--restart-guard=5m"},
		"--restart-guard must be at least --ttl (30s), not -1s": {"try", nodes, "name", "--restart-guard=-1s"},
		"--restart-guard must be at most 336h, not 337h":        {"try", nodes, "name", "--restart-guard=337h"},
		"name": {"try", nodes, ""},
		`\x1b`: {"try", nodes, "a\x1bb"},
		"belongs to the library: it is a companion of a lock, or the stamp of a node": {"inspect", nodes, "{x}:fence"},
		"separates the fencing token": {"try", nodes, "name", "--metadata=a|b"},
		`extend needs --token or $REDLOCK_TOKEN: what "redlock try name" has printed`: {"extend", nodes, "name"},
		"release needs --token or $REDLOCK_TOKEN":                                     {"release", nodes, "name"},
		"--force frees the lock whoever holds it":                                     {"unlock", nodes, "name"},
		"not both":  {"unlock", nodes, "name", "--force", "--token=x"},
		"add --yes": {"unlock", nodes, "name", "--force"},
		"--interval must be between 100ms and 1h":        {"inspect", nodes, "name", "--watch", "--interval=1ms"},
		"--limit must be between 1 and 10000000, not -1": {"list", nodes, "--limit=-1"},
		"--sort":                    {"list", nodes, "--sort=size"},
		"the pattern has 600 bytes": {"list", nodes, strings.Repeat("x", 600)},
	})
}
