package supervise_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
)

// A terminal that is stopped by Ctrl-S, or a pager that nobody scrolls, must not hold up what ends the command.
func TestEvents_DoNotWaitForTheirReader(t *testing.T) {
	unread, w := io.Pipe()
	events := supervise.NewEvents(w, "job", true, false)
	for range 1000 {
		events.Exit(supervise.Report{Code: 1})
	}
	events.Close()
	assert.NoError(t, unread.Close())
}
