package doctor_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// documentedRules returns the rules of each ACL SETUSER line in docs/operations.md.
func documentedRules(t testing.TB) (lines [][]string) {
	t.Helper()
	lines = testredis.LockerRules(t, "../../../..")
	require.Len(t, lines, 6)
	return lines
}

func TestRights_AreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	lines := documentedRules(t)
	require.Equal(t, []string{"reset", "resetchannels", "on", ">secret"}, lines[0][:4])
	lines[0] = lines[0][4:]
	require.Equal(t, lines, doctor.ACLRules("lock:"))
}

// setUser gives a server the user "locker" with some rules.
func setUser(t testing.TB, s *testredis.Process, rules []string) {
	t.Helper()
	args := []any{"SETUSER", "locker"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	do(t, s, "ACL", args...)
}

// asLocker returns how the user "locker" reaches servers.
func asLocker(processes []*testredis.Process) []*node.Server {
	servers := serversOf(processes)
	for _, s := range servers {
		s.Username = "locker"
	}
	return servers
}

// What the user of the documentation may not ask.
var adminOnly = []string{"sentinel", "min-replicas", "timeout", "tracking-table", "buffer-limit", "keys-no-ttl", "keys-foreign", "keys-other-list"}

func TestExamine_IsSilentForTheUserOfTheDocumentation(t *testing.T) {
	t.Parallel()
	all := testredis.Real(t, 5, "--requirepass", "secret") // without persistence
	rules := slices.Concat(documentedRules(t)...)
	for _, p := range all {
		setUser(t, p, rules)
	}
	stamp(t, time.Minute, all...)
	for _, p := range all {
		do(t, p, "MOVE", stampKey(p), 1)
	}
	servers := asLocker(all)
	for _, s := range servers {
		s.Database, s.ClientName = 1, "doctor"
	}
	r := finds(t, servers, patient(doctor.Options{Fencing: true, Shared: true, RestartGuard: 3 * time.Second}))
	var unexamined []string
	for _, u := range r.Unexamined {
		if u.Node == all[0].Addr() {
			unexamined = append(unexamined, u.Check)
		}
	}
	for _, check := range append([]string{"keys-long-ttl", "backlog"}, adminOnly...) {
		require.Contains(t, unexamined, check)
	}
	require.Len(t, r.Unexamined, 5*(len(adminOnly)+2))
	needs := map[string]string{}
	for _, u := range r.Unexamined {
		needs[u.Check] = u.Needs
	}
	require.Equal(t, "the right +config|get", needs["timeout"])
	require.Equal(t, "the right +pubsub|numsub", needs["sentinel"])
	require.Equal(t, "the right +scan", needs["keys-no-ttl"])
}

// Each rule is taken away from one of three servers. The command that the finding names gives it back.
func TestExamine_FindsEachRightThatIsMissing(t *testing.T) {
	t.Parallel()
	lines := documentedRules(t)
	for line, rules := range lines {
		if line == 0 {
			rules = rules[4:]
		}
		for _, rule := range rules {
			t.Run(strings.ReplaceAll(rule, "|", " "), func(t *testing.T) {
				t.Parallel()
				all := wellSetServers(t, 3)
				for i, p := range all {
					rules := slices.Concat(lines...)
					if i == 0 {
						rules = slices.DeleteFunc(rules, func(r string) bool { return r == rule })
					}
					setUser(t, p, rules)
				}
				servers := asLocker(all)
				o := patient(doctor.Options{Fencing: true, Shared: true, RestartGuard: time.Minute, Durable: []string{"all"}})
				if line == 4 {
					for _, s := range servers {
						s.Database, s.ClientName = 1, "doctor"
					}
				}
				r := examine(t, servers, o)
				want := []string{is(doctor.Warning, "rights-identity", all[0].Addr()), is(doctor.Warning, "rights-waking", all[0].Addr())}
				switch {
				case rule == "+info", rule == "~quorumlock:*":
					guarded := o
					guarded.Durable, guarded.Only = nil, []string{"rights-identity"}
					r := examine(t, servers, guarded)
					requireFindings(t, r, is(doctor.Fault, "rights-identity", all[0].Addr()))
					want = want[:1]
				case rule == "+evalsha":
					want = []string{is(doctor.Warning, "rights-locks", all[0].Addr())}
				case line == 0:
					want = []string{is(doctor.Fault, "rights-locks", all[0].Addr())}
				case line == 1:
					want = want[:1]
				case line == 2:
					want = want[1:]
				case rule == "+time": // which is in two lines
					want = []string{is(doctor.Fault, "rights-fencing", all[0].Addr()), is(doctor.Fault, "rights-shared", all[0].Addr())}
				case line == 5:
					want = []string{is(doctor.Fault, "rights-shared", all[0].Addr())}
				case line == 3:
					want = []string{is(doctor.Fault, "rights-fencing", all[0].Addr())}
				case line == 4:
					want = []string{is(doctor.Fault, "reachable", all[0].Addr())}
				}
				found := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Node == all[0].Addr() })
				require.GreaterOrEqual(t, found, 0)
				if line < 3 && (rule == "+set" || rule == "+del") { // which counters need as well
					want = append(want, is(doctor.Fault, "rights-fencing", all[0].Addr()))
				}
				requireFindings(t, r, want...)
				if line != 4 {
					require.Contains(t, r.Findings[found].What, ": "+rule)
				}
				words := strings.Fields(r.Findings[found].Fix)
				require.Equal(t, []string{"ACL", "SETUSER", "locker"}, words[:3])
				require.Contains(t, words, rule)
				setUser(t, all[0], words[3:])
				finds(t, servers, o)
			})
		}
	}
}

// The danger: 0 faults for a node that never grants a lock.
func TestExamine_SaysWhatItCostsThatAServerHasNoINFO(t *testing.T) {
	t.Parallel()
	s := testredis.Real(t, 1, "--requirepass", "secret", "--rename-command", "INFO", "HIDDEN")[0]
	guarded := doctor.Options{RestartGuard: time.Second}
	durable := doctor.Options{RestartGuard: time.Second, Durable: []string{"all"}}
	for severity, all := range map[doctor.Severity][]doctor.Options{doctor.Fault: {guarded}, doctor.Warning: {durable, {}}} {
		for _, o := range all {
			o.Only = []string{"commands"}
			r := finds(t, serversOf([]*testredis.Process{s}), patient(o), is(severity, "commands", s.Addr()))
			require.Contains(t, r.Findings[0].What, "INFO")
		}
	}
}

func TestExamine_LeavesNothingOutForTheAdministratorOfTheDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/tool.md")
	require.NoError(t, err)
	_, rights, _ := strings.Cut(strings.Join(strings.Fields(string(text)), " "), "with the rights of the programs' user and `")
	rights, _, is := strings.Cut(rights, "`")
	require.True(t, is)
	all := wellSetServers(t, 3)
	for _, p := range all {
		setUser(t, p, append(slices.Concat(documentedRules(t)...), strings.Fields(rights)...))
		do(t, p, "HSET", "lock:java", uuid+":57", 1)
	}
	r := examine(t, asLocker(all), patient(doctor.Options{}))
	require.Empty(t, r.Unexamined)
	require.Len(t, r.Findings, 3)
	require.Contains(t, r.Findings[0].What, "Redisson")
	for _, p := range all {
		require.Empty(t, do(t, p, "ACL", "LOG"))
	}
}

func TestExamine_FindsAPrefixThatTheUserMayNotUse(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 3)
	for _, p := range all {
		setUser(t, p, slices.Concat(documentedRules(t)...))
	}
	o := patient(doctor.Options{Prefix: "other:", Only: []string{"rights-locks", "lock"}})
	r := finds(t, asLocker(all), o,
		is(doctor.Fault, "rights-locks", all[0].Addr()), is(doctor.Fault, "rights-locks", all[1].Addr()),
		is(doctor.Fault, "rights-locks", all[2].Addr()))
	require.Contains(t, r.Findings[0].What, "~other:*")
	require.Contains(t, r.Findings[0].Fix, "ACL SETUSER locker ~other:* +set")
}
