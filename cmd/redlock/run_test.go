package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun_ChecksItsFlags(t *testing.T) {
	nodes := "--nodes=redis://127.0.0.1:1"
	refuses(t, []string{"run"}, map[string][]string{
		"no nodes: set --nodes":                                                          {"job", "true"},
		"no command: redlock run NAME":                                                   {nodes, "job", "--"},
		"no command: redlock run NAME -- COMMAND":                                        {nodes, "job"},
		"-c and a COMMAND can't be used together":                                        {nodes, "job", "-c", "true", "--", "true"},
		"-c has the whole command, as one word":                                          {nodes, "job", "-c", "echo", "word"},
		"--ttl must be between 1s and 24h, not 500ms":                                    {nodes, "--ttl=500ms", "job", "true"},
		"--timeout must be between 1ms and 250ms, not 300ms":                             {nodes, "--ttl=1s", "job", "true"},
		"--kill-after must be between 0s and 9.8s, not 11s":                              {nodes, "--ttl=20s", "--kill-after=11s", "job", "true"},
		"--kill-after must be between 0s and 14.7s":                                      {nodes, "--kill-after=-1s", "job", "true"},
		"--wait must be at least 0, not -1s":                                             {nodes, "--wait=-1s", "job", "true"},
		"--conflict-exit-code must be between 0 and 255, not 256":                        {nodes, "-E", "256", "job", "true"},
		"--max-hold must be 0, for no limit, or at least --ttl (30s), not 20s":           {nodes, "--ttl=30s", "--max-hold=20s", "job", "true"},
		"--max-hold must be 0, for no limit, or at least 1s, not 500ms":                  {nodes, "--max-hold=500ms", "job", "true"},
		`--wait: must be a duration such as 90s or 5m, or a number of seconds, not "5x"`: {nodes, "-w", "5x", "job", "true"},
		`or a number of seconds, not "inf"`:                                              {nodes, "-w", "inf", "job", "true"},
		`or a number of seconds, not "9999999999s"`:                                      {nodes, "-w", "9999999999", "job", "true"},
		"--wait must be at least 0, not -5s":                                             {nodes, "--wait=-5", "job", "true"},
		"--max-hold must be 0, for no limit, or at least --at-least (2m), not 1m":        {nodes, "--max-hold=1m", "--at-least=2m", "job", "true"},
		"--at-least must be between 0s and 24h":                                          {nodes, "--at-least=-1s", "job", "true"},
		"--restart-guard must be at most 336h, not 337h":                                 {nodes, "--restart-guard=337h", "job", "true"},
		"--restart-guard must be at least --ttl and --at-least (2m), not 1m":             {nodes, "--restart-guard=1m", "--at-least=2m", "job", "true"},
		"--on-lost must be one of":                                                       {nodes, "--on-lost=pray", "job", "true"},
		"--metadata must be at most 256 bytes of text without |":                         {nodes, "--metadata=a|b", "job", "true"},
		"--shared and --fencing can't be used together":                                  {nodes, "--shared", "--fencing", "job", "true"},
		"--shared and --also can't be used together":                                     {nodes, "--shared", "--also=other", "job", "true"},
		"--slots must be between 1 and 1024, not 0":                                      {nodes, "--slots=0", "job", "true"},
		"--expect-every must be between 1m and 8784h, not 59s":                           {nodes, "--metrics-dir=.", "--expect-every=59s", "job", "true"},
		"--expect-every must be between 1m and 8784h, not 8785h":                         {nodes, "--metrics-dir=.", "--expect-every=8785h", "job", "true"},
		"--expect-every must be between 1m and 8784h, not 0s":                            {nodes, "--metrics-dir=.", "--expect-every=0s", "job", "true"},
		"--expect-every needs --metrics-dir":                                             {nodes, "--expect-every=15m", "job", "true"},
		"--slots must be between 1 and 1024, not 1025":                                   {nodes, "--slots=1025", "job", "true"},
		"--slots and --shared can't be used together":                                    {nodes, "--slots=2", "--shared", "job", "true"},
		"--slots and --fencing can't be used together":                                   {nodes, "--slots=2", "--fencing", "job", "true"},
		"--slots and --also can't be used together":                                      {nodes, "--slots=2", "--also=other", "job", "true"},
		`the name "bad\nname" has the control character`:                                 {nodes, "bad\nname", "true"},
		`the name "{job}:fence": the key "{job}:fence" belongs to the library`:           {nodes, "--also={job}:fence", "job", "true"},
		`the name "job" is given twice`:                                                  {nodes, "--also=job", "job", "true"},
		"the name is empty":                                                              {nodes, "--shared", "", "true"},
		`the key prefix "\n" has the control character`:                                  {nodes, "--key-prefix=\n", "job", "true"},
		`not "\x1b[31m"`: {nodes, "--metadata=\x1b[31m", "job", "true"},
		"--verbose and --json can't be used together": {nodes, "--json", "--verbose", "job", "true"},
	})
}

func TestRun_WritesNoMetricsOfAWrongCommandLine(t *testing.T) {
	dir := t.TempDir()
	refuses(t, []string{"run", "--nodes=redis://127.0.0.1:1", "--metrics-dir=" + dir}, map[string][]string{
		"control character": {"bad\nname", "true"},
		"is empty":          {"--also=", "job", "true"},
		"must be at least":  {"--wait=-1s", "job", "true"},
	})
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
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
