package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestExamine_FindsAReplicaAndItsMaster(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	do(t, s, "CONFIG", "SET", "masterauth", "secret")
	do(t, s, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
	do(t, s, "REPLICAOF", "127.0.0.1", portOf(t, all[1].Addr()))
	require.Eventually(t, func() bool { return infoOf(t, all[1], "connected_slaves") == 1 }, bound, time.Millisecond)
	r := finds(t, serversOf(all), patient(doctor.Options{}),
		is(doctor.Fault, "role", s.Addr()), is(doctor.Warning, "replicas", all[1].Addr()))
	require.Contains(t, r.Findings[0].What, `"slave"`)
}

// Each of these is found on the server that has it, and nothing else is.
func TestExamine_FindsWhatIsWrongWithAServer(t *testing.T) {
	t.Parallel()
	const guard = 500 * time.Millisecond
	guarded := doctor.Options{RestartGuard: guard}
	durable := doctor.Options{RestartGuard: guard, Durable: []string{"all"}}
	rewriting := []string{"--no-appendfsync-on-rewrite", "yes"}
	forgets, eachSecond := []string{"--appendonly", "no"}, []string{"--appendfsync", "everysec"}
	renamed := func(command string) []string { return []string{"--rename-command", command, "HIDDEN"} }
	for name, test := range map[string]struct {
		args     []string
		change   func(t *testing.T, s *testredis.Process)
		o        doctor.Options
		severity doctor.Severity // "" means that nothing is found
		check    string
		shows    string
	}{
		"a cluster":                            {[]string{"--cluster-enabled", "yes"}, nil, doctor.Options{}, doctor.Fault, "cluster", ""},
		"a Sentinel":                           {nil, watchAsSentinel, doctor.Options{}, doctor.Warning, "sentinel", "1 Sentinels"},
		"keys that were evicted":               {nil, evict, doctor.Options{}, doctor.Warning, "eviction", "1 keys have been evicted"},
		"PUBLISH is renamed":                   {renamed("PUBLISH"), nil, doctor.Options{}, doctor.Warning, "commands", "PUBLISH"},
		"EVALSHA is renamed":                   {renamed("EVALSHA"), nil, doctor.Options{}, doctor.Warning, "commands", "EVALSHA"},
		"PEXPIRE is renamed":                   {renamed("PEXPIRE"), nil, doctor.Options{}, doctor.Fault, "commands", "PEXPIRE"},
		"HELLO is renamed":                     {renamed("HELLO"), nil, doctor.Options{}, doctor.Warning, "resp3", "HELLO"},
		"no persistence and no restart guard":  {forgets, nil, doctor.Options{}, doctor.Fault, "persistence", ""},
		"no persistence, but a restart guard":  {forgets, nil, guarded, "", "", ""},
		"snapshots and no restart guard":       {append(forgets, "--save", "3600 1"), nil, doctor.Options{}, doctor.Fault, "persistence", ""},
		"a sync each second":                   {eachSecond, nil, doctor.Options{}, doctor.Warning, "persistence", ""},
		"no sync during rewrites":              {rewriting, nil, doctor.Options{}, doctor.Warning, "persistence", ""},
		"a sync each second and a guard":       {eachSecond, nil, guarded, "", "", ""},
		"a sync each second, declared durable": {eachSecond, nil, durable, doctor.Fault, "durable", ""},
		"no persistence, declared durable":     {forgets, nil, durable, doctor.Fault, "durable", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, all := besideTwo(t, test.args...)
			if test.change != nil {
				test.change(t, s)
			}
			if test.o.RestartGuard > 0 {
				stamp(t, time.Minute, all...)
			}
			if test.severity == "" {
				finds(t, serversOf(all), patient(test.o))
				return
			}
			r := finds(t, serversOf(all), patient(test.o), is(test.severity, test.check, s.Addr()))
			require.Contains(t, r.Findings[0].What, test.shows)
			if test.check == "persistence" {
				require.Contains(t, r.Findings[0].Fix, "pool.WithRestartGuard in all programs, and --restart-guard of redlock, to the longest TTL; or ")
			}
		})
	}
}

// watchAsSentinel subscribes to what each Sentinel does, until the test ends.
func watchAsSentinel(t *testing.T, s *testredis.Process) {
	c, err := redis.Dial("tcp", s.Addr(), redis.DialPassword("secret"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Do("SUBSCRIBE", "__sentinel__:hello")
	require.NoError(t, err)
}

// evict makes a server evict a key, and then keep all of them.
func evict(t *testing.T, s *testredis.Process) {
	do(t, s, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	do(t, s, "SET", "key", "value")
	do(t, s, "CONFIG", "SET", "maxmemory", 1)
	_, _ = s.Do("SET", "key", "value")
	require.Eventually(t, func() bool { return infoOf(t, s, "evicted_keys") > 0 }, bound, time.Millisecond)
	do(t, s, "CONFIG", "SET", "maxmemory", 0)
	do(t, s, "CONFIG", "SET", "maxmemory-policy", "noeviction")
}

func TestExamine_FindsAFullServer(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	do(t, s, "SETRANGE", "large", 35<<20, "x")
	for limit, severity := range map[int]doctor.Severity{1: doctor.Fault, infoOf(t, s, "used_memory") * 11 / 10: doctor.Warning} {
		do(t, s, "CONFIG", "SET", "maxmemory", limit)
		finds(t, serversOf(all), patient(doctor.Options{Fencing: true}), is(severity, "memory", s.Addr()))
	}
}

func TestExamine_FindsThatConnectionsRunOut(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t, "--maxclients", "40")
	for range 33 {
		c, err := redis.Dial("tcp", s.Addr(), redis.DialPassword("secret"))
		require.NoError(t, err)
		defer c.Close()
	}
	finds(t, serversOf(all), patient(doctor.Options{}), is(doctor.Warning, "clients", s.Addr()))

	for range 7 { // up to the limit, when the connections of the examination have ended
		require.Eventually(t, func() bool {
			c, err := redis.Dial("tcp", s.Addr(), redis.DialPassword("secret"))
			if err == nil {
				t.Cleanup(func() { _ = c.Close() })
			}
			return err == nil
		}, bound, time.Millisecond)
	}
	r := finds(t, serversOf(all), patient(doctor.Options{}), is(doctor.Fault, "reachable", s.Addr()))
	require.Contains(t, r.Findings[0].What, "max number of clients")
}

func TestExamine_FindsASnapshotThatFailed(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	do(t, s, "CONFIG", "SET", "save", "3600 1")
	require.NoError(t, os.Mkdir(filepath.Join(s.Dir(), "dump.rdb"), 0o700)) // which no file can replace
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "dump.rdb", "file"), nil, 0o600))
	do(t, s, "BGSAVE")
	require.Eventually(t, func() bool { return testredis.Info(t, s, "all", "rdb_last_bgsave_status") == "err" }, bound, time.Millisecond)
	r := finds(t, serversOf(all), patient(doctor.Options{}), is(doctor.Fault, "snapshot", s.Addr()))
	require.Contains(t, r.Findings[0].What, "MISCONF")

	do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	finds(t, serversOf(all), patient(doctor.Options{}), is(doctor.Warning, "snapshot", s.Addr()))

	do(t, s, "CONFIG", "SET", "save", "")
	finds(t, serversOf(all), patient(doctor.Options{}))
}

func TestExamine_FindsARestartGuardThatIsTooShort(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 3)
	o := patient(doctor.Options{RestartGuard: 2 * time.Second, Durable: []string{"all"}})
	finds(t, serversOf(all), o)
	o.TTL = time.Minute
	r := finds(t, serversOf(all), o, is(doctor.Fault, "restart-guard", ""))
	require.Equal(t, "set pool.WithRestartGuard in all programs, and --restart-guard of redlock, to 1m0s or longer", r.Findings[0].Fix)
	o.TTL, o.Fencing = 0, true
	r = finds(t, serversOf(all), o, is(doctor.Fault, "restart-guard", ""))
	require.Contains(t, r.Findings[0].Fix, "to 3s or longer")
}

// fix carries out what a finding says, which begins with CONFIG SET commands, and examines the servers once more.
func fix(t *testing.T, s *testredis.Process, all []*testredis.Process, r *doctor.Report, o doctor.Options) {
	t.Helper()
	command, _, _ := strings.Cut(r.Findings[0].Fix, " (")
	words := strings.SplitN(command, " ", 4)
	require.Equal(t, []string{"CONFIG", "SET"}, words[:2], command)
	do(t, s, "CONFIG", "SET", words[2], strings.Trim(words[3], `"`))
	finds(t, serversOf(all), o)
}

// Each of these is found on the server that has it, with what shows it, and is fixed by the command that the finding names.
func TestExamine_FindsASettingThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args     []string
		check    string
		severity doctor.Severity
		shows    string
	}{
		"eviction of keys with a TTL": {[]string{"--maxmemory-policy", "volatile-ttl"}, "eviction", doctor.Fault, `"volatile-ttl"`},
		"eviction of all keys":        {[]string{"--maxmemory-policy", "allkeys-lfu"}, "eviction", doctor.Fault, `"allkeys-lfu"`},
		"writes need replicas":        {[]string{"--min-replicas-to-write", "1"}, "min-replicas", doctor.Fault, "min-replicas-to-write is 1"},
		"idle connections are cut":    {[]string{"--timeout", "5"}, "timeout", doctor.Warning, "timeout is 5 s"},
		"few keys are tracked":        {[]string{"--tracking-table-max-keys", "10"}, "tracking-table", doctor.Warning, "of 10 keys"},
		"messages have no room":       {[]string{"--client-output-buffer-limit", "pubsub", "32768", "8192", "60"}, "buffer-limit", doctor.Warning, "32768 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, all := besideTwo(t, test.args...)
			o := patient(doctor.Options{})
			r := finds(t, serversOf(all), o, is(test.severity, test.check, s.Addr()))
			require.Contains(t, r.Findings[0].What, test.shows)
			fix(t, s, all, r, o)
		})
	}
}
