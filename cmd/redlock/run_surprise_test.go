//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// As flock(1) has it.
func TestRun_ANumberIsAWaitInSeconds(t *testing.T) {
	servers := three(t)
	first := holding(t, servers)
	for _, wait := range [][]string{{"-w", "0"}, {"-w", "0.5"}, {"-w1"}, {"--wait=1"}} {
		p := runTool(t, servers, append(wait, "job", "true")...)
		assert.Equal(t, exitTaken, p.code(), wait)
	}
	code, _, problem := call(t.Context(), "try", "job", "-w", "1", "--nodes="+strings.Join(testredis.URLs(servers), ","), "--timeout=5s")
	assert.Equal(t, exitTaken, code, problem)
	second := runTool(t, servers, "-w", "3600", "job", "true")
	second.event("blocked")
	first.endsWith(0)
	assert.Zero(t, second.code())
}

func TestRun_MaxHoldBelowTheDefaultTTLLowersIt(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "--max-hold=20s", "job", "true")
	assert.Zero(t, p.code())
	assert.LessOrEqual(t, *p.event("acquired").Validity, (20 * time.Second).Milliseconds())
	p = runTool(t, servers, "--max-hold=1h", "job", "true")
	assert.Zero(t, p.code())
	assert.Greater(t, *p.event("acquired").Validity, (20 * time.Second).Milliseconds())
}

func TestRun_WithinRunOfTheSameNameSaysSoAndDoesNotWait(t *testing.T) {
	servers := three(t)
	nodes := "--nodes=" + strings.Join(testredis.URLs(servers), ",")
	for name, flags := range map[string][]string{
		"exclusive":      nil,
		"with a wait":    {"-w", "1h"},
		"as one of them": {"--also=z"},
		"quiet":          {"-E", "0"},
	} {
		args := append(append([]string{"outer", "--", os.Args[0], "run", nodes}, flags...), "outer", "--", "echo", "ran")
		p := runTool(t, servers, args...)
		assert.Equal(t, exitUsage, p.code(), name)
		p.complains(`the lock "outer" is held by the "redlock run" around this one ($REDLOCK_TOKEN)`)
		assert.Empty(t, p.lines["out"])
	}
	p := runTool(t, servers, "--shared", "both", "--", os.Args[0], "run", nodes, "--shared", "both", "--", "echo", "ran")
	p.says("ran")
	assert.Zero(t, p.code())
}

// A variable that somebody has kept says nothing about the holder of now.
func TestRun_WaitsForAnotherHolderWhateverItsOwnTokenWas(t *testing.T) {
	servers := three(t)
	first := holding(t, servers)
	cmd := toolCommand(servers, "run", "--json", "job", "--", "echo", "ran")
	cmd.Env = append(cmd.Env, "REDLOCK_NAME=job", "REDLOCK_TOKEN=another")
	p := start(t, cmd)
	p.event("blocked")
	first.endsWith(0)
	p.says("ran")
	assert.Zero(t, p.code())
}

func TestRun_WarnsIfTwoNodesAreOneServer(t *testing.T) {
	servers := testredis.Real(t, 3)
	urls := append(testredis.URLs(servers), strings.Replace(testredis.URLs(servers)[0], "127.0.0.1", "localhost", 1))
	cmd := toolCommand(servers, "run", "job", "--", "echo", "ran")
	cmd.Env = append(cmd.Env, "REDLOCK_NODES="+strings.Join(urls, ","))
	p := start(t, cmd)
	p.says("ran")
	line := p.complains("warning")
	assert.Regexp(t, `^redlock: warning: --nodes: \S+: the node is the same server as \S+: together they have one vote$`, line)
	assert.Zero(t, p.code())
}
