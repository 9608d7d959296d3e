package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestExamine_FindsKeysThatDoNotFit(t *testing.T) {
	t.Parallel()
	type put struct {
		cmd  string
		args []any
	}
	for name, test := range map[string]struct {
		put   put
		check string
		shows string
	}{
		"a key without a TTL":           {put{"SET", []any{"lock:left", "somebody"}}, "keys-no-ttl", `1 key without a TTL: "lock:left"`},
		"a hash":                        {put{"HSET", []any{"lock:data", "field", "value"}}, "keys-foreign", `"lock:data" (not a string)`},
		"a lock of Redisson":            {put{"HSET", []any{"lock:java", uuid + ":57", 1}}, "keys-foreign", `"lock:java" (a lock of Redisson)`},
		"a long string":                 {put{"SET", []any{"lock:page", strings.Repeat("x", 2000), "PX", 60_000}}, "keys-foreign", `"lock:page" (longer than a token)`},
		"a lock of redsync, for long":   {put{"SET", []any{"lock:sync", "MDEyMzQ1Njc4OWFiY2RlZg==", "EX", 7200}}, "keys-long-ttl", `s, a token like those of redsync)`},
		"a lock of redis-py, for long":  {put{"SET", []any{"lock:py", strings.ReplaceAll(uuid, "-", ""), "EX", 7200}}, "keys-long-ttl", "redis-py"},
		"a UUID, for long":              {put{"SET", []any{"lock:uuid", uuid, "EX", 7200}}, "keys-long-ttl", "a UUID"},
		"a name that acts on terminals": {put{"SET", []any{"lock:\x1b[2J\r\n", "somebody"}}, "keys-no-ttl", `"lock:\x1b[2J\r\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, all := besideTwo(t)
			do(t, s, test.put.cmd, test.put.args...)
			for i, other := range []string{"other:key", "{lock:a}:fence", "lock"} { // none of them is the key of a lock
				do(t, all[i], "SET", other, 1)
			}
			o := patient(doctor.Options{RestartGuard: time.Hour, Durable: []string{"all"}, Watch: time.Millisecond})
			r := finds(t, serversOf(all), o, is(doctor.Warning, test.check, s.Addr()))
			require.Contains(t, r.Findings[0].What, test.shows)
			require.EqualValues(t, 1, do(t, s, "EXISTS", test.put.args[0]), "and leaves it alone")
		})
	}
}

func TestExamine_NamesTheFirstFewKeysOfMany(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	do(t, s, "EVAL", "for i = 1, 3000 do redis.call('SET', 'lock:' .. i, 'x') end", 0)
	r := finds(t, serversOf(all), patient(doctor.Options{}), is(doctor.Warning, "keys-no-ttl", s.Addr()))
	require.Contains(t, r.Findings[0].What, "3000 keys without a TTL: ")
	require.Contains(t, r.Findings[0].What, " and 2995 more")
}

func TestExamine_StopsLookingAtKeysAndSaysSo(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	do(t, s, "EVAL", "for i = 1, 3000 do redis.call('SET', 'lock:' .. i, 'x', 'EX', 100) end", 0)
	r := finds(t, serversOf(all), patient(doctor.Options{Keys: 1000}))
	require.NotEmpty(t, r.Unexamined)
	require.Equal(t, s.Addr(), r.Unexamined[0].Node)
	require.Contains(t, r.Unexamined[0].Needs, "keys were looked at")
}

func TestExamine_TakesAPrefixLiterally(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	do(t, s, "SET", "lockX", "x")
	o := patient(doctor.Options{Prefix: "lock[X]"})
	finds(t, serversOf(all), o)
	do(t, s, "SET", "lock[X]1", "x")
	finds(t, serversOf(all), o, is(doctor.Warning, "keys-no-ttl", s.Addr()))
}

func TestExamine_WithoutAPrefixLeavesKeysAlone(t *testing.T) {
	t.Parallel()
	s, all := besideTwo(t)
	do(t, s, "SET", "page", "a program's data")
	o := patient(doctor.Options{})
	o.Prefix = ""
	r := finds(t, serversOf(all), o)
	require.Len(t, r.Unexamined, 3*3)
	for _, u := range r.Unexamined {
		require.Contains(t, []string{"keys-no-ttl", "keys-foreign", "keys-other-list"}, u.Check)
		require.Contains(t, u.Needs, "--key-prefix")
	}
	for _, command := range []string{"scan", "type"} {
		require.Empty(t, testredis.Info(t, s, "all", "cmdstat_"+command))
	}
}

// hold holds a lock on some servers until the test ends.
func hold(t testing.TB, name string, ttl time.Duration, renew bool, on ...*testredis.Process) {
	t.Helper()
	var urls []string
	for _, p := range on {
		urls = append(urls, fmt.Sprintf("redis://:secret@%s", p.Addr()))
	}
	locker, err := redlock.Open(urls, redlock.WithKeyPrefix("lock:"), redlock.TTL(ttl), pool.WithTimeout(ttl/4))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locker.Close()) })
	var opts []redlock.LockOption
	if renew {
		opts = append(opts, redlock.RenewFor(redlock.NoLimit))
	}
	_, err = locker.Lock(t.Context(), name, opts...)
	require.NoError(t, err)
}

func TestExamine_FindsALockOfAProgramWithAnotherListOfNodes(t *testing.T) {
	t.Parallel()
	all := wellSetServers(t, 3)
	hold(t, "job", 9*time.Second, true, all[1])
	hold(t, "fine", 9*time.Second, true, all...)
	hold(t, "idle", time.Minute, false, all[0])
	o := patient(doctor.Options{Watch: 8 * time.Second}) // in which the lock is renewed more than once
	r := finds(t, serversOf(all), o, is(doctor.Warning, "keys-other-list", ""))
	require.Contains(t, r.Findings[0].What, `the lock "lock:job" is renewed (a token of this library) on 1 of 3 nodes, fewer than a majority: `+all[1].Addr())
}

// The danger: nodes whose answers say nothing are taken for nodes that hold nothing, and a lock on all of them for one that a
// program with another list of nodes holds.
func TestExamine_ANodeThatShowsNoKeysMayHoldALock(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *testredis.Process){
		"refuses to show them": func(s *testredis.Process) { do(t, s, "ACL", "SETUSER", "locker", "-getrange") },
		"has become a replica": func(s *testredis.Process) { do(t, s, "REPLICAOF", "127.0.0.1", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := wellSetServers(t, 3)
			for _, s := range all {
				setUser(t, s, []string{"on", ">secret", "+@all", "~*", "&*"})
			}
			hold(t, "job", 9*time.Second, true, all[0])
			for _, s := range all[1:] {
				change(s)
			}
			o := patient(doctor.Options{Watch: 8 * time.Second}) // in which the lock is renewed more than once
			for _, f := range examine(t, asLocker(all), o).Findings {
				require.NotEqual(t, "keys-other-list", f.Check, f.What)
			}
		})
	}
}
