package doctor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
)

func TestExamine_FindsAReplicaAndItsMaster(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	do(t, s, "CONFIG", "SET", "masterauth", "secret")
	do(t, s, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
	do(t, s, "REPLICAOF", "127.0.0.1", portOf(t, all[1].Addr()))
	require.Eventually(t, func() bool { return infoOf(t, all[1], "connected_slaves") == 1 }, bound, time.Millisecond)
	r := examine(t, serversOf(all), patient(doctor.Options{}))
	requireFindings(t, r, is(doctor.Fault, "role", s.Addr()), is(doctor.Warning, "replicas", all[1].Addr()))
	require.Contains(t, r.Findings[0].What, `"slave"`)
}

func TestExamine_FindsAServerOfACluster(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t, "--cluster-enabled", "yes")
	r := examine(t, serversOf(all), patient(doctor.Options{}))
	requireFindings(t, r, is(doctor.Fault, "cluster", s.Addr()))
}

func TestExamine_FindsSentinelsThatWatchAServer(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	c, err := redis.Dial("tcp", s.Addr(), redis.DialPassword("secret"))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Do("SUBSCRIBE", "__sentinel__:hello") // as each Sentinel does
	require.NoError(t, err)
	r := examine(t, serversOf(all), patient(doctor.Options{}))
	requireFindings(t, r, is(doctor.Warning, "sentinel", s.Addr()))
}

func TestExamine_FindsAFullServer(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	do(t, s, "SETRANGE", "large", 35<<20, "x")
	for limit, severity := range map[int]doctor.Severity{1: doctor.Fault, infoOf(t, s, "used_memory") * 11 / 10: doctor.Warning} {
		do(t, s, "CONFIG", "SET", "maxmemory", limit)
		r := examine(t, serversOf(all), patient(doctor.Options{Fencing: true}))
		requireFindings(t, r, is(severity, "memory", s.Addr()))
	}
}

func TestExamine_FindsThatAServerEvictedKeys(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	do(t, s, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	do(t, s, "SET", "key", "value")
	do(t, s, "CONFIG", "SET", "maxmemory", 1)
	_, _ = s.Do("SET", "key", "value")
	require.Eventually(t, func() bool { return infoOf(t, s, "evicted_keys") > 0 }, bound, time.Millisecond)
	do(t, s, "CONFIG", "SET", "maxmemory", 0)
	do(t, s, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	r := examine(t, serversOf(all), patient(doctor.Options{}))
	requireFindings(t, r, is(doctor.Warning, "eviction", s.Addr()))
}

func TestExamine_FindsThatConnectionsRunOut(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t, "--maxclients", "40")
	for range 33 {
		c, err := redis.Dial("tcp", s.Addr(), redis.DialPassword("secret"))
		require.NoError(t, err)
		defer c.Close()
	}
	r := examine(t, serversOf(all), patient(doctor.Options{}))
	requireFindings(t, r, is(doctor.Warning, "clients", s.Addr()))

	for range 7 { // up to the limit, when the connections of the examination have ended
		require.Eventually(t, func() bool {
			c, err := redis.Dial("tcp", s.Addr(), redis.DialPassword("secret"))
			if err == nil {
				t.Cleanup(func() { _ = c.Close() })
			}
			return err == nil
		}, bound, time.Millisecond)
	}
	r = examine(t, serversOf(all), patient(doctor.Options{}))
	requireFindings(t, r, is(doctor.Fault, "reachable", s.Addr()))
	require.Contains(t, r.Findings[0].What, "max number of clients")
}

func TestExamine_FindsASnapshotThatFailed(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t, "--save", "3600 1")
	require.NoError(t, os.Mkdir(filepath.Join(s.Dir(), "dump.rdb"), 0o700)) // which no file can replace
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "dump.rdb", "file"), nil, 0o600))
	do(t, s, "BGSAVE")
	require.Eventually(t, func() bool { return field(t, s, "rdb_last_bgsave_status") == "err" }, bound, time.Millisecond)
	r := examine(t, serversOf(all), patient(doctor.Options{}))
	requireFindings(t, r, is(doctor.Fault, "snapshot", s.Addr()))
	require.Contains(t, r.Findings[0].What, "MISCONF")

	do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	r = examine(t, serversOf(all), patient(doctor.Options{}))
	requireFindings(t, r, is(doctor.Warning, "snapshot", s.Addr()))

	do(t, s, "CONFIG", "SET", "save", "")
	requireFindings(t, examine(t, serversOf(all), patient(doctor.Options{})))
}

func TestExamine_FindsWhatARestartLoses(t *testing.T) {
	t.Parallel()
	const guard = 500 * time.Millisecond
	for name, test := range map[string]struct {
		args     []string
		o        doctor.Options
		check    string
		severity doctor.Severity // "" means that nothing is found
	}{
		"no persistence and no restart guard":  {[]string{"--appendonly", "no"}, doctor.Options{}, "persistence", doctor.Fault},
		"no persistence, but a restart guard":  {[]string{"--appendonly", "no"}, doctor.Options{RestartGuard: guard}, "", ""},
		"snapshots and no restart guard":       {[]string{"--appendonly", "no", "--save", "3600 1"}, doctor.Options{}, "persistence", doctor.Fault},
		"a sync each second":                   {[]string{"--appendfsync", "everysec"}, doctor.Options{}, "persistence", doctor.Warning},
		"no sync during rewrites":              {[]string{"--no-appendfsync-on-rewrite", "yes"}, doctor.Options{}, "persistence", doctor.Warning},
		"a sync each second and a guard":       {[]string{"--appendfsync", "everysec"}, doctor.Options{RestartGuard: guard}, "", ""},
		"a sync each second, declared durable": {[]string{"--appendfsync", "everysec"}, doctor.Options{RestartGuard: guard, Durable: []string{"all"}}, "durable", doctor.Fault},
		"no persistence, declared durable":     {[]string{"--appendonly", "no"}, doctor.Options{RestartGuard: guard, Durable: []string{"all"}}, "durable", doctor.Fault},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, all := besideTwo(t, test.args...)
			if test.o.RestartGuard > 0 {
				awaitUptime(t, 2, all...)
			}
			r := examine(t, serversOf(all), patient(test.o))
			if test.severity == "" {
				requireFindings(t, r)
				return
			}
			requireFindings(t, r, is(test.severity, test.check, s.Addr()))
		})
	}
}

func TestExamine_FindsAServerInQuarantine(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	// The others are durable, and so exempt.
	r := examine(t, serversOf(all), patient(doctor.Options{RestartGuard: time.Hour, Durable: []string{all[1].Addr(), all[2].Addr()}}))
	requireFindings(t, r, is(doctor.Warning, "quarantine", s.Addr()))
	require.Regexp(t, `do not use it for (1h0|59)m`, r.Findings[0].What)
}

func TestExamine_FindsARestartGuardThatIsTooShort(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 3)
	o := patient(doctor.Options{RestartGuard: 2 * time.Second, Durable: []string{"all"}})
	requireFindings(t, examine(t, serversOf(all), o))
	o.TTL = time.Minute
	r := examine(t, serversOf(all), o)
	requireFindings(t, r, is(doctor.Fault, "restart-guard", ""))
	require.Contains(t, r.Findings[0].Fix, "WithRestartGuard(1m0s)")
	o.TTL, o.Fencing = 0, true
	r = examine(t, serversOf(all), o)
	requireFindings(t, r, is(doctor.Fault, "restart-guard", ""))
	require.Contains(t, r.Findings[0].Fix, "WithRestartGuard(3s)")
}

func TestExamine_FindsACommandThatWasRenamed(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]struct {
		check    string
		severity doctor.Severity
	}{
		"PUBLISH": {"commands", doctor.Warning},
		"EVALSHA": {"commands", doctor.Fault},
		"PEXPIRE": {"commands", doctor.Fault},
		"HELLO":   {"resp3", doctor.Warning},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s, all := besideTwo(t, "--rename-command", command, "HIDDEN")
			r := examine(t, serversOf(all), patient(doctor.Options{}))
			requireFindings(t, r, is(want.severity, want.check, s.Addr()))
			require.Contains(t, r.Findings[0].What, command)
		})
	}
}

func TestExamine_FindsThatTheAOFCouldNotBeWritten(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 3)
	full := altering(t, all[0], func(answer []byte) []byte {
		return bytes.ReplaceAll(answer, []byte("aof_last_write_status:ok\r\n"), []byte("aof_last_write_status:err\n"))
	})
	r := examine(t, append(serversOf(all[1:]), serverAt(full)), patient(doctor.Options{}))
	requireFindings(t, r, is(doctor.Fault, "aof-errors", full))
}
