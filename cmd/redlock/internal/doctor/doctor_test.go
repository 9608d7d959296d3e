package doctor_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestExamine_IsSilentOnDurableServers(t *testing.T) {
	t.Parallel()
	servers := serversOf(wellSetServers(t, 5))
	for _, o := range []doctor.Options{{}, {Fencing: true, Shared: true, Durable: []string{"all"}, RestartGuard: time.Minute}} {
		r := finds(t, servers, patient(o))
		require.Empty(t, r.Unexamined)
		require.Len(t, r.Nodes, 5)
	}
}

func TestExamine_IsSilentOnServersThatForgetIfTheProgramsHaveARestartGuard(t *testing.T) {
	t.Parallel()
	processes := testredis.Real(t, 5, "--requirepass", "secret", "--maxmemory", "100mb")
	stamp(t, time.Minute, processes...)
	r := finds(t, serversOf(processes), patient(doctor.Options{Fencing: true, RestartGuard: 3 * time.Second, TTL: 3 * time.Second}))
	require.Empty(t, r.Unexamined)
}

// infoOf returns a number in INFO.
func infoOf(t testing.TB, p *testredis.Process, name string) int {
	t.Helper()
	n, err := strconv.Atoi(testredis.Info(t, p, "all", name))
	require.NoError(t, err, name)
	return n
}

func TestExamine_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	processes := wellSetServers(t, 3)
	examine(t, serversOf(processes), patient(doctor.Options{Fencing: true, Shared: true}))
	for _, p := range processes {
		require.EqualValues(t, 0, do(t, p, "DBSIZE"))
		require.Empty(t, do(t, p, "PUBSUB", "CHANNELS"))
		require.Empty(t, do(t, p, "ACL", "LOG"), "and nothing was refused")
		require.Eventually(t, func() bool { return infoOf(t, p, "connected_clients") == 1 }, bound, time.Millisecond, "only the one that asks")
	}
}

func TestExamine_ShowsWhatItSawOfEachServer(t *testing.T) {
	t.Parallel()
	processes := wellSetServers(t, 3)
	processes[1].Stop()
	r := examine(t, serversOf(processes), patient(doctor.Options{}))
	for i, s := range r.Servers {
		require.Equal(t, processes[i].Addr(), s.Node)
		require.Equal(t, i != 1, s.Reachable)
		if s.Reachable {
			require.Regexp(t, `^(Redis|Valkey) \d`, s.Version)
			require.Len(t, s.RunID, 40)
			require.GreaterOrEqual(t, *s.UptimeSeconds, int64(0))
			require.Greater(t, *s.P50, 0.0)
			require.GreaterOrEqual(t, *s.P99, *s.P50)
			require.InDelta(t, 0, *s.ClockOffset, *s.ClockError+1000)
			continue
		}
		text, err := json.Marshal(s)
		require.NoError(t, err)
		require.JSONEq(t, `{"node": "`+s.Node+`", "reachable": false}`, string(text), "and no zeros")
	}
}

func TestExamine_MakesOnlyTheChecksThatAreAskedFor(t *testing.T) {
	t.Parallel()
	servers := serversOf(wellSetServers(t, 1, "--maxmemory-policy", "allkeys-lru"))
	o := patient(doctor.Options{Only: []string{"version", "eviction"}})
	r := finds(t, servers, o, is(doctor.Fault, "eviction", servers[0].Address))
	require.Equal(t, o.Only, r.Checks)
}

func TestChecks_AreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/doctor.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "\n| check | fault | warning |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for line := range strings.Lines(table) {
		for _, name := range regexp.MustCompile("`([a-z0-9-]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			documented = append(documented, name[1])
		}
	}
	require.ElementsMatch(t, doctor.Names(), documented)
}

func TestFindings_LinkToWhatExists(t *testing.T) {
	t.Parallel()
	for name, link := range doctor.Links() {
		requireLink(t, link, name)
	}
	require.Equal(t, "failures.md#what-a-server-answered", doctor.Links()["reachable"])
	require.Equal(t, "operations.md#nodes", doctor.Links()["version"])
}
