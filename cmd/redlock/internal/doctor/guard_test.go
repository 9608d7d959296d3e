package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// besideDurables starts one server with args, and two that the programs declare durable, and so are exempt from the guard.
func besideDurables(t *testing.T, guard time.Duration, args ...string) (odd *testredis.Process, all []*testredis.Process, o doctor.Options) {
	t.Helper()
	odd, all = besideTwo(t, args...)
	return odd, all, patient(doctor.Options{RestartGuard: guard, Durable: []string{all[1].Addr(), all[2].Addr()}})
}

func TestExamine_FindsAServerInQuarantineByItsStamp(t *testing.T) {
	t.Parallel()
	const guard = time.Hour
	otherHistory := strings.Repeat("a", 40)
	set := func(value func(t *testing.T, s *testredis.Process) string, args ...any) func(*testing.T, *testredis.Process) {
		return func(t *testing.T, s *testredis.Process) {
			do(t, s, "SET", append([]any{stampKey(s), value(t, s)}, args...)...)
		}
	}
	itsOwn := func(t *testing.T, s *testredis.Process) string { return testredis.OwnStamp(t, s) }
	for name, test := range map[string]struct {
		change func(t *testing.T, s *testredis.Process)
		shows  string // a pattern; "" means that nothing is found
	}{
		"no stamp":         {func(*testing.T, *testredis.Process) {}, `^it has no stamp: .*programs that connect do not use it for locks for 1h0m36s$`},
		"an empty value":   {set(func(*testing.T, *testredis.Process) string { return "" }), `^it has no stamp: `},
		"a young one":      {func(t *testing.T, s *testredis.Process) { stamp(t, 10*time.Minute, s) }, `^the server has been in use as this node for 10m\d+s: .* for (50m[0-3]?\d|49m\d+)s$`},
		"one without 1 %":  {func(t *testing.T, s *testredis.Process) { stamp(t, guard, s) }, `^the server has been in use as this node for 1h0m\d+s: `},
		"one with 1 %":     {func(t *testing.T, s *testredis.Process) { stamp(t, guard+guard/100, s) }, ""},
		"the oldest":       {set(itsOwn, "PX", 60_000), ""},
		"no TTL":           {set(itsOwn), `^its stamp has a TTL that no program gives to one: .*1h0m36s$`},
		"a TTL of ages":    {set(itsOwn, "PX", int64(9_000_000_000_000_000_000)), `^its stamp has a TTL`},
		"a TTL above 60 d": {set(itsOwn, "PX", (60*24*time.Hour + time.Hour).Milliseconds()), `^its stamp has a TTL`},
		"that of another server": {
			func(t *testing.T, s *testredis.Process) {
				stampWith(t, s, strings.Repeat("b", 40)+":"+testredis.Info(t, s, "all", "master_replid"), 2*guard)
			}, `^it has the stamp of another server: .*1h0m36s$`,
		},
		"one from before its first replica": {
			func(t *testing.T, s *testredis.Process) {
				stampWith(t, s, testredis.Info(t, s, "all", "run_id")+":"+otherHistory, 2*guard)
			}, "",
		},
		"one from before it was promoted": {
			func(t *testing.T, s *testredis.Process) {
				promote(t, s)
				stampWith(t, s, testredis.Info(t, s, "all", "run_id")+":"+otherHistory, 2*guard)
			}, `^it has the stamp of another server: `,
		},
		"one since it was promoted": {func(t *testing.T, s *testredis.Process) { promote(t, s); stamp(t, 2*guard, s) }, ""},
		"a hash":                    {func(t *testing.T, s *testredis.Process) { do(t, s, "HSET", stampKey(s), "field", "value") }, `^it has data of another program in the place of its stamp: `},
		"megabytes": {func(t *testing.T, s *testredis.Process) {
			stampWith(t, s, strings.Repeat("\x1b[2J", 1<<20), 2*guard)
		}, `^it has the stamp of another server: `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, all, o := besideDurables(t, guard)
			test.change(t, s)
			before := contents(t, s)
			if test.shows == "" {
				finds(t, serversOf(all), o)
			} else {
				r := finds(t, serversOf(all), o, is(doctor.Warning, "quarantine", s.Addr()))
				require.Regexp(t, test.shows, r.Findings[0].What)
			}
			require.Equal(t, before, contents(t, s), "it is looked at only")
		})
	}
}

// contents returns what stands in the place of a stamp, and when that ends.
func contents(t *testing.T, s *testredis.Process) []any {
	t.Helper()
	dump, err := s.Do("DUMP", stampKey(s))
	require.NoError(t, err)
	if testredis.IsOld(t, s) { // it does not say when a key ends
		return []any{dump}
	}
	return []any{dump, do(t, s, "PEXPIRETIME", stampKey(s))}
}

// promote makes a server a replica for a moment.
func promote(t *testing.T, s *testredis.Process) {
	t.Helper()
	master := wellSetServers(t, 1, "--repl-diskless-sync-delay", "0")[0]
	do(t, s, "CONFIG", "SET", "masterauth", "secret")
	do(t, s, "REPLICAOF", "127.0.0.1", portOf(t, master.Addr()))
	require.Eventually(t, func() bool { return testredis.Info(t, s, "all", "master_link_status") == "up" }, bound, time.Millisecond)
	do(t, s, "REPLICAOF", "NO", "ONE")
	require.NotEqual(t, strings.Repeat("0", 40), testredis.Info(t, s, "all", "master_replid2"))
}

func TestExamine_SaysThatItMayNotReadTheStamp(t *testing.T) {
	t.Parallel()
	for rules, needs := range map[string]string{
		"~lock:*": "the right ~quorumlock:*", "~* -getrange": "the right +getrange +pttl", "~* -pttl": "the right +getrange +pttl",
	} {
		s, all, o := besideDurables(t, time.Hour)
		for _, p := range all {
			setUser(t, p, []string{"on", ">secret", "+@all"})
		}
		setUser(t, s, strings.Fields(rules))
		o.Only = []string{"quarantine"}
		r := finds(t, asLocker(all), o)
		require.Equal(t, []doctor.Unexamined{{Check: "quarantine", Node: s.Addr(), Needs: needs}}, r.Unexamined)
	}
}

// The danger: a new set of servers grants no locks for the time of the restart guard, in front of the first users.
func TestExamine_PreparesServersForTheirFirstUse(t *testing.T) {
	t.Parallel()
	const guard = 2 * time.Second
	all := wellSetServers(t, 3)
	o := patient(doctor.Options{RestartGuard: guard, Prepare: true, Only: []string{"identity"}})
	r := finds(t, serversOf(all), o)
	require.Equal(t, []string{"identity", "prepare"}, r.Checks)
	for _, p := range all {
		require.EqualValues(t, testredis.OwnStamp(t, p), do(t, p, "GET", stampKey(p)))
		require.EqualValues(t, 1, do(t, p, "DBSIZE"), "nothing else is left")
	}
	<-time.After(guard + guard/100)
	o.Only, o.Prepare = []string{"quarantine"}, false
	finds(t, serversOf(all), o)

	var urls []string
	for _, p := range all {
		urls = append(urls, "redis://:secret@"+p.Addr())
	}
	nodes, err := pool.Open(urls, pool.WithRestartGuard(guard), pool.WithTimeout(bound))
	require.NoError(t, err)
	for _, n := range nodes {
		defer n.Close()
	}
	locker, err := redlock.New(nodes, redlock.TTL(guard))
	require.NoError(t, err)
	defer locker.Close()
	held, err := locker.TryLock(t.Context(), "job", redlock.RenewFor(redlock.NoLimit))
	require.NoError(t, err)
	require.NoError(t, held.Unlock(t.Context()))
}

func TestExamine_PreparesWhatNeedsItAndNothingElse(t *testing.T) {
	t.Parallel()
	const guard = time.Hour
	s, all, o := besideDurables(t, guard)
	o.Prepare = true
	r := finds(t, serversOf(all), o, is(doctor.Warning, "quarantine", s.Addr()))
	require.Regexp(t, `^the server has been in use as this node for \d+s: `, r.Findings[0].What)
	for _, p := range all[1:] {
		require.EqualValues(t, 0, do(t, p, "DBSIZE"), "a durable node votes without")
	}
	stamp(t, 2*guard, s)
	before := contents(t, s)
	finds(t, serversOf(all), o)
	require.Equal(t, before, contents(t, s), "a stamp of its own stays as it is")

	stampWith(t, s, strings.Repeat("b", 40)+":"+strings.Repeat("a", 40), 2*guard)
	finds(t, serversOf(all), o, is(doctor.Warning, "quarantine", s.Addr()))
	require.EqualValues(t, testredis.OwnStamp(t, s), do(t, s, "GET", stampKey(s)), "that of another server is replaced")

	do(t, s, "DEL", stampKey(s))
	o.RestartGuard = 0
	finds(t, serversOf(all), o)
	require.EqualValues(t, 0, do(t, s, "DBSIZE"), "without a guard there are no stamps")
}

func TestExamine_SaysWhyAServerCannotBePrepared(t *testing.T) {
	t.Parallel()
	s, all, o := besideDurables(t, time.Hour)
	o.Prepare = true
	for _, p := range all {
		setUser(t, p, []string{"on", ">secret", "+@all", "~*", "&*"})
	}
	setUser(t, s, []string{"resetkeys", "~lock:*"})
	r := finds(t, asLocker(all), o, is(doctor.Fault, "rights-identity", s.Addr()), is(doctor.Fault, "prepare", s.Addr()))
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Check == "prepare" })
	require.Contains(t, r.Findings[i].What, "the server refuses its stamp: NOPERM")
	words := strings.Fields(r.Findings[i].Fix)
	require.Equal(t, []string{"ACL", "SETUSER", "locker"}, words[:3])
	require.Contains(t, words, "~quorumlock:*")
	setUser(t, s, words[3:])
	finds(t, asLocker(all), o, is(doctor.Warning, "quarantine", s.Addr()))
}

// What another finding explains is no finding of its own.
func TestExamine_SaysOnceWhyAServerCannotBePrepared(t *testing.T) {
	t.Parallel()
	for check, change := range map[string]func(t *testing.T, s *testredis.Process){
		"memory": func(t *testing.T, s *testredis.Process) { do(t, s, "CONFIG", "SET", "maxmemory", 1) },
		"role":   func(t *testing.T, s *testredis.Process) { do(t, s, "REPLICAOF", "127.0.0.1", "1") },
	} {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			s, all, o := besideDurables(t, time.Hour)
			o.Prepare = true
			change(t, s)
			finds(t, serversOf(all), o, is(doctor.Fault, check, s.Addr()), is(doctor.Warning, "quarantine", s.Addr()))
		})
	}
}

// A server that has its stamp may still refuse locks, for which prepare is not to blame.
func TestExamine_DoesNotSayOfAStampedServerThatItCannotBeStamped(t *testing.T) {
	t.Parallel()
	addr := pretending(t, func(words []string) string {
		switch {
		case testredis.Proven(words)[0] == "SET":
			return "-ERR of its own\r\n"
		case words[0] == "EVAL" && strings.HasPrefix(words[3], "quorumlock:since:"):
			return "*2\r\n" + friendly([]string{"GETRANGE"}) + fmt.Sprintf(":%d\r\n", (wire.StampTTL-2*time.Hour).Milliseconds())
		}
		return friendly(words)
	})
	finds(t, servers(addr), patient(doctor.Options{RestartGuard: time.Hour, Prepare: true, Only: []string{"lock"}}), is(doctor.Fault, "lock", addr))
}

func TestExamine_FindsABacklogThatIsForgottenWithinTheRestartGuard(t *testing.T) {
	t.Parallel()
	s, all, o := besideDurables(t, time.Hour, "--repl-backlog-ttl", "3599")
	do(t, all[1], "CONFIG", "SET", "repl-backlog-ttl", 1) // it is exempt
	stamp(t, 2*time.Hour, s)
	r := finds(t, serversOf(all), o, is(doctor.Warning, "backlog", s.Addr()))
	require.Contains(t, r.Findings[0].What, "repl-backlog-ttl is 3599 s, which is below the restart guard of 1h0m0s")
	fix(t, s, all, r, o)
	for _, ttl := range []int64{3600, 1 << 34} {
		do(t, s, "CONFIG", "SET", "repl-backlog-ttl", ttl)
		finds(t, serversOf(all), o)
	}
	do(t, s, "CONFIG", "SET", "repl-backlog-ttl", 1)
	o.RestartGuard, o.Durable = 0, nil
	finds(t, serversOf(all), o)
}
