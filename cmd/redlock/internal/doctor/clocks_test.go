package doctor_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

var timeReply = regexp.MustCompile(`^\*2\r\n\$10\r\n(\d{10})\r\n(\$\d\r\n\d+\r\n)$`)

// ahead relays to a server whose clock seems to be off.
func ahead(t testing.TB, s *testredis.Process, seconds int) (addr string) {
	t.Helper()
	return altering(t, s, func(answer []byte) []byte {
		match := timeReply.FindSubmatch(answer)
		if match == nil {
			return answer
		}
		now, _ := strconv.Atoi(string(match[1]))
		return fmt.Appendf(nil, "*2\r\n$10\r\n%d\r\n%s", now+seconds, match[2])
	})
}

func TestExamine_FindsAClockThatIsOff(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 3)
	for off, shows := range map[int]string{100: "100.0 s ahead of the others", -100: "100.0 s behind the others"} {
		odd := ahead(t, all[0], off)
		r := finds(t, append(serversOf(all[1:]), serverAt(odd)), patient(doctor.Options{}), is(doctor.Warning, "clocks", odd))
		require.Regexp(t, `^the clock of the server is (99|100)\.\d s (ahead of|behind) the others$`, r.Findings[0].What, shows)
		require.InDelta(t, float64(off)*1000, *r.Servers[2].ClockOffset, 1000+*r.Servers[2].ClockError)
	}
}

func TestExamine_WantsARestartGuardThatCoversTheClocksForFencing(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 3)
	odd := ahead(t, all[0], 100)
	o := patient(doctor.Options{Fencing: true, RestartGuard: time.Minute, Durable: []string{"all"}})
	finds(t, append(serversOf(all[1:]), serverAt(odd)), o, is(doctor.Fault, "restart-guard", ""), is(doctor.Warning, "clocks", odd))
	o.RestartGuard = 2 * time.Minute
	finds(t, append(serversOf(all[1:]), serverAt(odd)), o, is(doctor.Warning, "clocks", odd))
}

func TestExamine_FindsThatTheClockHereIsOff(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 3)
	for i := range all {
		server := serverAt(ahead(t, all[i], 100))
		// Of two, nobody knows which one is right.
		finds(t, []*node.Server{server}, patient(doctor.Options{Only: []string{"clocks"}}), is(doctor.Warning, "clocks", server.Address))
	}
	servers := serversOf(nil)
	for i := range all {
		servers = append(servers, serverAt(ahead(t, all[i], 100)))
	}
	r := finds(t, servers, patient(doctor.Options{}), is(doctor.Warning, "clocks", ""))
	require.Regexp(t, `^the clock of this machine is (99|100)\.\d s behind those of the nodes$`, r.Findings[0].What)
}
