//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// The danger: the mail of cron does not say which of many locks was lost, nor which server to look at.
func TestRun_SaysWhichLockWasLostAndWhy(t *testing.T) {
	t.Parallel()
	const lost = `the lock "job" was lost while the command ran: `
	for name, test := range map[string]struct {
		lose func(servers []*testredis.Process)
		text string
	}{
		"deleted": {func(servers []*testredis.Process) { do(t, servers, "DEL", "job") },
			"the nodes do not hold it any more: it was deleted or evicted, as no node was disconnected meanwhile"},
		"restarted": {func(servers []*testredis.Process) {
			each(servers[:2], (*testredis.Process).Stop)
			each(servers[:2], (*testredis.Process).Start)
		}, "the nodes do not hold it any more: it was deleted, or servers restarted, as these were disconnected meanwhile: "},
		"down": {func(servers []*testredis.Process) { each(servers[:2], (*testredis.Process).Stop) },
			"it could not be renewed: too few nodes confirmed it, and "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testredis.Real(t, 3)
			p := runTool(t, servers, append(lostFlags, "job", "cat")...)
			renewals(p, 1)
			test.lose(servers)
			assert.Equal(t, exitLost, p.code())
			text := p.event("exit").Error
			assert.Contains(t, text, lost+test.text)
			assert.Contains(t, p.event("lost").Error, test.text)
			for i, server := range servers {
				assert.Equal(t, name != "deleted" && i < 2, strings.Contains(text, server.Addr()), "%s: %s", server.Addr(), text)
			}
		})
	}
}

func TestRun_SaysThatItsWaitIsOver(t *testing.T) {
	servers := testredis.Real(t, 3)
	first := runTool(t, servers, "--metadata=the first", "job", "cat")
	first.event("started")
	p := start(t, toolCommand(servers, "run", "--verbose", "--wait=1500ms", "job", "true"))
	assert.Equal(t, exitTaken, p.code())
	p.complains(`redlock: error: the wait of 1.5s is over: the lock "job" is held by "the first"; see: redlock inspect`)
	p.complains(": another token holds the key")
	try := start(t, toolCommand(servers, "try", "--wait=1500ms", "job"))
	assert.Equal(t, exitTaken, try.code())
	try.complains("redlock: error: the wait of 1.5s is over: lock is taken; see: redlock inspect")

	each(servers[:2], (*testredis.Process).Stop)
	for _, args := range [][]string{{"run", "--wait=1500ms", "job", "true"}, {"try", "--wait=1500ms", "job"}} {
		p := start(t, toolCommand(servers, args...))
		assert.Equal(t, exitUnavailable, p.code())
		p.complains(`redlock: error: the wait of 1.5s is over: acquire "job": no quorum of nodes`)
		line := p.complains("  " + servers[0].Addr() + ": not connected")
		assert.False(t, strings.HasPrefix(line, "   "), line)
		all := strings.Join(p.lines["err"], "\n")
		assert.NotContains(t, all, "deadline exceeded")
		assert.NotContains(t, all, servers[2].Addr(), "which is healthy")
	}
}

// The danger: a person waits for a holder that is gone, while too few servers are up, or repairs servers that are quarantined.
func TestRun_SaysAgainWhyItWaitsWhenThatChanges(t *testing.T) {
	servers := testredis.Real(t, 3)
	holding(t, servers)
	p := runTool(t, servers, "--restart-guard=1h", "job", "true")
	assert.NotEmpty(t, p.event("blocked").Holder)
	blocked := func(by string) {
		p.line("err", "blocked: "+by, func(line string) bool {
			var e toolEvent
			return json.Unmarshal([]byte(line), &e) == nil && e.Event == "blocked" && e.Holder == "" &&
				strings.Contains(e.Error, servers[0].Addr()+": "+by)
		})
	}
	each(servers[:2], (*testredis.Process).Stop)
	blocked("not connected")
	each(servers[:2], (*testredis.Process).Start)
	blocked("quarantined")
}
