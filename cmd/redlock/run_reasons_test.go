//go:build linux

package main

import (
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
