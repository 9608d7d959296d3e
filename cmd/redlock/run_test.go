package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRun_ChecksItsFlags(t *testing.T) {
	nodes := "--nodes=redis://127.0.0.1:1"
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no nodes":                {[]string{"job", "true"}, "no nodes: set --nodes"},
		"no command":              {[]string{nodes, "job"}, "command"},
		"no command behind --":    {[]string{nodes, "job", "--"}, "command"},
		"TTL too short":           {[]string{nodes, "--ttl=500ms", "job", "true"}, "--ttl must be between 1s and 24h, not 500ms"},
		"TTL below timeouts":      {[]string{nodes, "--ttl=1s", "job", "true"}, "--timeout must be between 1ms and 250ms, not 300ms"},
		"kill-after too long":     {[]string{nodes, "--ttl=20s", "--kill-after=11s", "job", "true"}, "--kill-after must be between 0s and 9.8s, not 11s"},
		"kill-after negative":     {[]string{nodes, "--kill-after=-1s", "job", "true"}, "--kill-after must be between 0s and 14.7s"},
		"wait negative":           {[]string{nodes, "--wait=-1s", "job", "true"}, "--wait must be at least 0, not -1s"},
		"exit code too high":      {[]string{nodes, "-E", "256", "job", "true"}, "--conflict-exit-code must be between 0 and 255, not 256"},
		"max-hold below TTL":      {[]string{nodes, "--max-hold=20s", "job", "true"}, "--max-hold must be 0, for no limit, or at least --ttl (30s), not 20s"},
		"max-hold below at-least": {[]string{nodes, "--max-hold=1m", "--at-least=2m", "job", "true"}, "--max-hold must be 0, for no limit, or at least --at-least (2m), not 1m"},
		"at-least negative":       {[]string{nodes, "--at-least=-1s", "job", "true"}, "--at-least must be between 0s and 24h"},
		"guard below at-least":    {[]string{nodes, "--restart-guard=1m", "--at-least=2m", "job", "true"}, "--restart-guard must be at least --ttl and --at-least (2m), not 1m"},
		"unknown mode":            {[]string{nodes, "--on-lost=pray", "job", "true"}, "--on-lost must be one of"},
		"metadata with |":         {[]string{nodes, "--metadata=a|b", "job", "true"}, "--metadata must be at most 256 bytes of text without |"},
		"metadata with escapes":   {[]string{nodes, "--metadata=\x1b[31m", "job", "true"}, `not "\x1b[31m"`},
		"json and verbose":        {[]string{nodes, "--json", "--verbose", "job", "true"}, "--verbose and --json can't be used together"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, problem := call(t.Context(), append([]string{"run"}, test.args...)...)
			assert.Equal(t, exitUsage, code)
			assert.Contains(t, problem, test.want)
			assert.Empty(t, out)
		})
	}
}

func TestRun_HelpIsOnlyForTheToolBeforeTheCommand(t *testing.T) {
	code, out, _ := call(t.Context(), "run", "--help")
	assert.Zero(t, code)
	assert.Contains(t, out, "--on-lost=term|kill|warn")
	assert.Contains(t, strings.Join(strings.Fields(out), " "), "If it cannot be renewed, the command is ended before the lock is over; if the lock was deleted, as soon as")
	code, out, problem := call(t.Context(), "run", "--nodes=redis://127.0.0.1:1", "job", "missing-program", "--help", "--version")
	assert.NotZero(t, code)
	assert.Empty(t, out)
	assert.Contains(t, problem, "missing-program")
}
