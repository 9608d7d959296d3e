package testredis_test

import (
	"net"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// The danger: a process that is just being started has copies of all descriptors, the listener's
// among them, and a stopped server seems to take connections.
func TestMini_RefusesConnectionsOnceItIsStoppedWhileProcessesAreStarted(t *testing.T) {
	s := testredis.Mini(t, 1)[0]
	ended := make(chan struct{})
	starting := make(chan struct{})
	go func() {
		defer close(starting)
		for {
			select {
			case <-ended:
				return
			default:
				_ = exec.Command("true").Run()
			}
		}
	}()
	defer func() {
		close(ended)
		<-starting
	}()
	for range 300 {
		s.Stop()
		c, err := net.Dial("tcp", s.Addr())
		if err == nil {
			_ = c.Close()
		}
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		s.Start()
	}
}
