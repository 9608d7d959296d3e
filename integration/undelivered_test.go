package integration_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// undelivered counts the connections to the nodes that were closed here and not acknowledged there. The kernel goes on
// sending what was written to them before: a node that was cut off gets it some time after it is back.
func (c *cluster) undelivered(t *testing.T) (count int) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		// Of proc_net_tcp(5): sl local_address rem_address st, the addresses in the byte order of the machine.
		fields := strings.Fields(line)
		if len(fields) < 4 || !slices.Contains([]string{"04", "09", "0B"}, fields[3]) { // FIN_WAIT1, LAST_ACK, CLOSING
			continue
		}
		var ip uint32
		var port uint16
		if _, err := fmt.Sscanf(fields[2], "%08X:%04X", &ip, &port); err != nil {
			continue
		}
		var octets [4]byte
		binary.NativeEndian.PutUint32(octets[:], ip)
		remote := netip.AddrPortFrom(netip.AddrFrom4(octets), port)
		if slices.Contains(c.addrs(), remote.String()) {
			count++
		}
	}
	return count
}
