package testredis_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const orphanEnv = "QUORUMLOCK_TEST_ORPHAN"

func TestProcess_DoesNotOutliveAKilledTestProcess(t *testing.T) {
	if os.Getenv(orphanEnv) != "" { // the process that gets killed
		fmt.Println("server", testredis.Real(t, 1)[0].Addr())
		select {}
	}
	testredis.Real(t, 0) // skips this test too where redis-server is missing

	out, kill := runAgain(t, orphanEnv+"=1", "TMPDIR="+t.TempDir())
	var addr string
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		addr, _ = strings.CutPrefix(lines.Text(), "server ")
	}
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, c.Close())

	kill()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, 5*time.Second, time.Millisecond)
}
