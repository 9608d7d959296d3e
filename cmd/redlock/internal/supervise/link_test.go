//go:build darwin || freebsd || linux

package supervise_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
)

// A frozen process reads nothing, and the other one has to watch the deadline meanwhile.
func TestLink_SendsWithoutWaitingForAReader(t *testing.T) {
	writer, reader := supervise.NewLinks(t)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range 10_000 { // more than a socket holds
			writer.Send(supervise.Message{Signal: unix.SIGWINCH})
			writer.Send(supervise.Message{Continue: i + 1})
			writer.Send(supervise.Message{Stopped: unix.SIGTSTP, After: i + 1})
		}
		writer.Send(supervise.Message{Signal: unix.SIGTERM})
	}()
	select {
	case <-sent:
	case <-time.After(30 * time.Second):
		require.Fail(t, "send waits")
	}
	go writer.Report(supervise.Report{Code: 5})

	var last, signal supervise.Message
	for m := range reader.Messages() {
		switch {
		case m.Report != nil:
			assert.Equal(t, 5, m.Report.Code)
			assert.Equal(t, supervise.Message{Stopped: unix.SIGTSTP, After: 10_000}, last)
			assert.Equal(t, unix.SIGTERM, signal.Signal)
			return
		case m.Signal != 0:
			signal = m
		default:
			last = m
		}
	}
	require.Fail(t, "no report")
}
