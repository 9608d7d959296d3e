package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// One server that is reached under two names is no majority of three.
func TestInspect_CountsAServerUnderTwoNamesOnce(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1)
	_, port, err := net.SplitHostPort(c.servers[0].Addr())
	require.NoError(t, err)
	nodes := open(t, []string{c.servers[0].URL(), "redis://localhost:" + port, "redis://127.0.0.1:1"})
	locker := lockerOver(t, nodes)
	c.do(0, "SET", "name", "token", "PX", long.Milliseconds())
	var state *redlock.LockState
	eventually(t, func() bool { // both are connected
		state, err = locker.Inspect(t.Context(), "name")
		return errors.Is(err, nodeerr.ErrSameServer)
	}, "the server is known")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.Equal(t, redlock.VerdictUnknown, state.Verdict)
	require.ErrorIs(t, errOf(locker.Attach(t.Context(), "name", "token")), nodeerr.ErrSameServer)
	removed, err := locker.ForceUnlock(t.Context(), "name")
	requireIs(t, err, redlock.ErrNoQuorum, nodeerr.ErrSameServer)
	require.Equal(t, []redlock.Holder{{Token: "token", Nodes: 1}}, removed)
}

// only returns the one holder that a state, a node or a removal shows.
func only(tb testing.TB, holders []redlock.Holder) redlock.Holder {
	tb.Helper()
	require.Len(tb, holders, 1)
	return holders[0]
}

// inspect asks who holds a name.
func inspect(tb testing.TB, locker *redlock.Locker, name string) *redlock.LockState {
	tb.Helper()
	s := must(locker.Inspect(tb.Context(), name))(tb)
	require.Equal(tb, name, s.Name)
	return s
}

func TestInspect_ShowsWhoHoldsTheLockForHowLong(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker := c.locker(redlock.WithKeyPrefix("lock:"))
		lock := take(t, locker, "name", redlock.Metadata("backup: of db3"), redlock.TTL(time.Minute))
		c.eventuallyHeld("lock:name", lock.Token())
		s := inspect(t, c.locker(redlock.WithKeyPrefix("lock:")), "name")
		require.Equal(t, redlock.VerdictHeld, s.Verdict)
		require.Equal(t, redlock.KindExclusive, s.Kind)
		h := only(t, s.Holders)
		require.Greater(t, h.TTL, 20*time.Second)
		require.LessOrEqual(t, h.TTL, time.Minute)
		require.Equal(t, redlock.Holder{Token: lock.Token(), Metadata: "backup: of db3", TTL: h.TTL, Nodes: 5}, h)
		require.Equal(t, 3, s.Need)
		require.Len(t, s.Nodes, 5)
		for i, node := range s.Nodes {
			require.Equal(t, c.servers[i].Addr(), node.Addr)
			require.NoError(t, node.Err)
			require.Equal(t, redlock.KindExclusive, node.Kind)
			require.Greater(t, node.TTL, 20*time.Second)
			want := redlock.Holder{Token: lock.Token(), Metadata: "backup: of db3", TTL: node.TTL, Nodes: 1}
			require.Equal(t, want, only(t, node.Holders))
		}
		require.NoError(t, lock.Err())
		unlock(t, lock)
		c.eventuallyEmpty()
		s = inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictNobody, s.Verdict)
		require.Empty(t, s.Kind)
		require.Nil(t, s.Holders)
		for _, node := range s.Nodes {
			require.Equal(t, redlock.NodeState{Addr: node.Addr}, node)
		}
	})
}

func TestInspect_CallsALockHeldThatAMajorityHolds(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for i, ttl := range []time.Duration{10 * time.Minute, 30 * time.Minute} {
			c.do(i, "SET", "name", "theirs", "PX", ttl.Milliseconds())
		}
		c.do(2, "SET", "name", "other", "PX", long.Milliseconds())
		s := inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictNobody, s.Verdict, "two are no majority")
		require.Equal(t, redlock.KindExclusive, s.Kind)
		require.Nil(t, s.Holders)
		require.EqualValues(t, "theirs", only(t, s.Nodes[1].Holders).Token)
		require.EqualValues(t, "other", only(t, s.Nodes[2].Holders).Token)
		require.Nil(t, s.Nodes[3].Holders)

		c.do(2, "SET", "name", "theirs", "PX", (20 * time.Minute).Milliseconds())
		c.do(3, "SET", "name", "theirs") // for ever
		s = inspect(t, locker, "name")
		h := only(t, s.Holders)
		require.EqualValues(t, "theirs", h.Token, "a foreign client's")
		require.Empty(t, h.Metadata)
		require.Equal(t, 4, h.Nodes)
		require.EqualValues(t, redlock.NoLimit, s.Nodes[3].TTL)
		require.LessOrEqual(t, h.TTL, 20*time.Minute, "for so long three hold it")
		require.Greater(t, h.TTL, 15*time.Minute)
		c.doAll("SET", "name", "theirs")
		require.EqualValues(t, redlock.NoLimit, only(t, inspect(t, locker, "name").Holders).TTL)
	})
}

func TestInspect_ReportsWhyANodeDoesNotAnswer(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := c.everywhere(take(t, locker, "name"))
		c.do(0, "DEL", "name")
		c.do(0, "RPUSH", "name", "data")
		c.servers[1].Stop()
		s := inspect(t, locker, "name")
		require.Equal(t, lock.Token(), only(t, s.Holders).Token)
		wrong := as[*nodeerr.ServerError](t, s.Nodes[0].Err)
		require.Equal(t, "WRONGTYPE", wrong.Code)
		require.Error(t, s.Nodes[1].Err)
		require.NoError(t, s.Nodes[2].Err)

		c.servers[2].Stop()
		s = inspect(t, locker, "name") // two hold it, and data of somebody's is an answer, too
		require.Equal(t, redlock.VerdictUnknown, s.Verdict, "one of those that are down may hold it")
		c.servers[4].Stop()
		s, err := locker.Inspect(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, redlock.VerdictUnknown, s.Verdict)
		require.ErrorContains(t, err, ": 2 of 5 nodes answered, 3 needed")
		require.Equal(t, "inspect", c.refused(err).Op)
		require.NotNil(t, s)
		require.Equal(t, lock.Token(), only(t, s.Nodes[3].Holders).Token, "what the others say is told")
		require.Equal(t, "list", strings.ToLower(c.do(0, "TYPE", "name").(string)))
		_ = lock.Unlock(t.Context())
	})
}

func TestInspect_SomebodysDataIsNotAMissingAnswer(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.do(0, "RPUSH", "name", "data")
		c.do(1, "SET", "name", strings.Repeat("x", 5000))
		s := inspect(t, c.locker(), "name")
		require.Equal(t, redlock.VerdictForeign, s.Verdict)
		for i := range 2 {
			require.ErrorIs(t, s.Nodes[i].Err, nodeerr.ErrForeign)
			require.Nil(t, s.Nodes[i].Holders)
		}
		require.NoError(t, s.Nodes[2].Err)
		requireIs(t, errOf(c.locker().Attach(t.Context(), "name", "token")), redlock.ErrNotHeld, nodeerr.ErrForeign)
	})
}

// An empty value keeps everybody else from taking the lock, as any token does, and an unlock by force removes it.
func TestInspect_AnEmptyValueIsAToken(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		c.doFirst(2, "SET", "name", "", "PX", long.Milliseconds())
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
		s := inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictHeld, s.Verdict)
		h := only(t, s.Holders)
		require.Greater(t, h.TTL, long/2)
		require.Equal(t, redlock.Holder{TTL: h.TTL, Nodes: 2}, h)
		for i, kind := range []redlock.Kind{redlock.KindExclusive, redlock.KindExclusive, ""} {
			require.Equal(t, kind, s.Nodes[i].Kind)
			require.Equal(t, kind != "", len(s.Nodes[i].Holders) == 1)
		}
		removed := only(t, must(locker.ForceUnlock(t.Context(), "name"))(t))
		require.Greater(t, removed.TTL, long/2)
		require.Equal(t, redlock.Holder{TTL: removed.TTL, Nodes: 2}, removed)
		require.Equal(t, redlock.VerdictNobody, inspect(t, locker, "name").Verdict)
		take(t, locker, "name")
	})
}

func TestInspect_OnAContextThatEndsReturnsItsError(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker()
	freeze(c.processes...)
	s, err := locker.Inspect(briefly(t), "name")
	requireIs(t, err, context.DeadlineExceeded, redlock.ErrNoQuorum)
	for _, node := range s.Nodes {
		require.ErrorIs(t, node.Err, nodeerr.ErrUnanswered)
	}
	thaw(c.processes...)
}

// nodeStates returns what nodes hold, a letter for each: - for nothing, a letter for a token, 0 for an empty value, # for
// somebody's data, ? for no answer.
func nodeStates(text string) (nodes []redlock.NodeState) {
	for _, letter := range text {
		n := redlock.NodeState{Addr: fmt.Sprint("node-", len(nodes))}
		switch letter {
		case '-':
		case '?':
			n.Err = nodeerr.ErrTimeout
		case '#':
			n.Err = &nodeerr.ServerError{Code: "WRONGTYPE"}
		default:
			token := redlock.Token(strings.Trim(string(letter), "0"))
			n.Kind, n.TTL = redlock.KindExclusive, time.Minute
			n.Holders = []redlock.Holder{{Token: token, TTL: n.TTL, Nodes: 1}}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func TestNewState_TellsWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	const held, nobody, data, unknown = redlock.VerdictHeld, redlock.VerdictNobody, redlock.VerdictForeign, redlock.VerdictUnknown
	for _, test := range []struct {
		nodes string
		want  redlock.Verdict
	}{
		{"a", held}, {"-", nobody}, {"#", data}, {"?", unknown}, {"0", held},
		{"aa-", held}, {"a--", nobody}, {"ab-", nobody}, {"abc", nobody}, {"---", nobody},
		{"00-", held}, {"0--", nobody}, {"0a-", nobody}, {"0a?", unknown}, {"00?", held},
		{"aa?", held}, {"ab?", unknown}, {"a-?", unknown}, {"--?", nobody}, {"-??", unknown}, {"???", unknown},
		{"##-", data}, {"##?", data}, {"##a", data}, {"#--", nobody}, {"#-?", nobody}, {"#a?", unknown}, {"#aa", held}, {"#??", unknown},
		{"aaa??", held}, {"aa---", nobody}, {"aa-??", unknown}, {"aabb?", unknown}, {"aabb-", nobody}, {"abc-?", nobody}, {"ab-??", unknown}, {"a---?", nobody},
		{"---??", nobody}, {"--???", unknown}, {"###a?", data}, {"##aa?", unknown}, {"##abb", nobody}, {"##-??", nobody}, {"#--??", nobody}, {"#a-??", unknown},
		{"aaa-", held}, {"aa--", nobody}, {"aa??", unknown}, {"aabb", nobody}, {"a-??", unknown}, {"--??", nobody}, {"##--", data}, {"-???", unknown},
	} {
		s := redlock.NewLockState("name", nodeStates(test.nodes))
		require.Equal(t, test.want, s.Verdict, test.nodes)
		require.Equal(t, len(test.nodes)/2+1, s.Need)
		require.Equal(t, test.want == held, len(s.Holders) == 1 && s.Holders[0].TTL > 0, test.nodes)
		require.Equal(t, test.want == held, s.Holders != nil, test.nodes)
		require.Equal(t, strings.ContainsAny(test.nodes, "abc0"), s.Kind == redlock.KindExclusive, test.nodes)
		require.Len(t, s.Nodes, len(test.nodes))
	}
}

// Whatever nodes hold that did not answer: a verdict is certain, or unknown.
func TestNewState_IsUnknownIfAndOnlyIfTheMissingNodesDecide(t *testing.T) {
	t.Parallel()
	const answers = "-ab0#?"
	for n := 1; n <= 5; n++ {
		for _, text := range combinations(answers, n) {
			holders := map[string]bool{} // of all that the missing nodes may hold
			for _, complete := range completions(text) {
				holders[holder(complete)] = true
			}
			s := redlock.NewLockState("name", nodeStates(text))
			switch s.Verdict {
			case redlock.VerdictHeld:
				require.Equal(t, map[string]bool{"of " + string(only(t, s.Holders).Token): true}, holders, text)
			case redlock.VerdictNobody, redlock.VerdictForeign:
				require.Equal(t, map[string]bool{"": true}, holders, text)
				require.Nil(t, s.Holders)
			default:
				require.Greater(t, len(holders), 1, text)
				require.Nil(t, s.Holders)
			}
			require.Equal(t, s.Verdict == redlock.VerdictForeign, nobodyCanTake(text), text)
		}
	}
}

// combinations returns all texts of n of the letters.
func combinations(letters string, n int) []string {
	if n == 0 {
		return []string{""}
	}
	var all []string
	for _, rest := range combinations(letters, n-1) {
		for _, letter := range letters {
			all = append(all, rest+string(letter))
		}
	}
	return all
}

// completions returns what nodes may hold of which some did not answer.
func completions(text string) []string {
	all := []string{""}
	for _, letter := range text {
		may := string(letter)
		if letter == '?' {
			may = "-ab0#"
		}
		var longer []string
		for _, begin := range all {
			for _, letter := range may {
				longer = append(longer, begin+string(letter))
			}
		}
		all = longer
	}
	return all
}

// holder returns who holds a lock if all nodes answer; "" means nobody.
func holder(text string) string {
	on := map[rune]int{}
	for _, letter := range text {
		on[letter]++
	}
	for letter, name := range map[rune]string{'a': "of a", 'b': "of b", '0': "of "} {
		if on[letter] > len(text)/2 {
			return name
		}
	}
	return ""
}

// nobodyCanTake reports whether data is on so many nodes that the others are no majority.
func nobodyCanTake(text string) bool {
	others := 0
	for _, letter := range text {
		if letter != '#' {
			others++
		}
	}
	return others <= len(text)/2
}

func TestNewState_CountsTheHolderOnce(t *testing.T) {
	t.Parallel()
	nodes := nodeStates("aab-?")
	shows := func(i int, fence uint64, ttl time.Duration) {
		nodes[i].Kind, nodes[i].TTL = redlock.KindExclusive, ttl
		nodes[i].Holders = []redlock.Holder{{Token: "a", Metadata: "of a", Fence: fence, TTL: ttl, Nodes: 1}}
	}
	shows(0, 7, time.Minute)
	shows(1, 8, time.Minute)
	shows(3, 7, redlock.NoLimit)
	s := redlock.NewLockState("name", nodes)
	require.Equal(t, redlock.VerdictHeld, s.Verdict, "numbers behind the same token do not make it another's")
	// No majority has the same number, and three hold it for a minute.
	require.Equal(t, []redlock.Holder{{Token: "a", Metadata: "of a", TTL: time.Minute, Nodes: 3}}, s.Holders)
	shows(0, 7, redlock.NoLimit)
	shows(1, 7, redlock.NoLimit)
	s = redlock.NewLockState("name", nodes)
	require.Equal(t, []redlock.Holder{{Token: "a", Metadata: "of a", Fence: 7, TTL: redlock.NoLimit, Nodes: 3}}, s.Holders)

	nodes[0].Err = errors.New("late") // what it holds is not known
	require.Equal(t, redlock.VerdictUnknown, redlock.NewLockState("name", nodes).Verdict)
}

// replicate makes servers replicas of the first one, and waits until they have its data.
func (c *cluster) replicate(replicas ...int) {
	c.tb.Helper()
	for _, i := range replicas {
		c.do(i, "REPLICAOF", "127.0.0.1", c.port(0))
	}
	for _, i := range replicas {
		eventually(c.tb, func() bool { return c.info(i, "replication", "master_link_status") == "up" }, "replica %d has the data", i)
	}
}

// requireReplica checks that the reason why a node did not answer is that it is a replica.
func requireReplica(t *testing.T, err error) {
	t.Helper()
	refusal := as[*nodeerr.ServerError](t, err)
	require.Equal(t, "READONLY", refusal.Code)
	require.ErrorContains(t, err, "the server is a replica")
}

// The danger: two replicas show the lock of their master, which only one node has granted, and three of three nodes seem to hold it.
func TestReplica_WhatItHoldsIsNoAnswer(t *testing.T) {
	t.Parallel()
	type row struct {
		before   bool   // it is one before the Locker connects
		readOnly string // replica-read-only
	}
	inParallel(t, map[string]row{
		"before the connection":           {true, "yes"},
		"while connected":                 {false, "yes"},
		"that may be written to":          {true, "no"},
		"that is written to, made lately": {false, "no"},
	}, func(t *testing.T, test row) {
		c := onReal(t, 3, "--repl-diskless-sync-delay", "0")
		c.each(func(i int) { c.do(i, "CONFIG", "SET", "replica-read-only", test.readOnly) })
		locker := c.locker()
		if !test.before {
			inspect(t, locker, "name")
		}
		c.replicate(1, 2)
		c.do(0, "SET", "name", "token", "PX", long.Milliseconds())
		c.each(func(i int) {
			eventually(t, func() bool { return c.value(i, "name") == "token" }, "server %d shows it", i)
		})

		s, err := locker.Inspect(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "1 of 3 nodes answered, 2 needed")
		require.Equal(t, redlock.VerdictUnknown, s.Verdict)
		require.Nil(t, s.Holders)
		require.EqualValues(t, "token", only(t, s.Nodes[0].Holders).Token)
		require.NoError(t, s.Nodes[0].Err)
		requireReplica(t, s.Nodes[1].Err)
		requireReplica(t, s.Nodes[2].Err)

		require.ErrorIs(t, errOf(locker.Attach(t.Context(), "name", "token")), redlock.ErrNoQuorum)

		// A replica that holds nothing does not show either that nobody holds the lock.
		removed, err := locker.ForceUnlock(t.Context(), "nothing")
		requireReplica(t, c.refused(err, redlock.ErrNoQuorum).Nodes[1].Err)
		require.Nil(t, removed)

		for i := range 2 { // a node whose role changes back is used again
			c.do(i+1, "REPLICAOF", "NO", "ONE")
		}
		eventually(t, func() bool {
			s, err := locker.Inspect(t.Context(), "name")
			return err == nil && len(s.Holders) == 1 && s.Holders[0].Token == "token"
		}, "the nodes are connected again")
	})
}

// A user who may not use INFO is told what a key holds, and a server that cannot write now is still a master.
func TestReplica_IsWhatSaysSo(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string][][]any{
		"no right to INFO": {{"ACL", "SETUSER", "default", "-info"}},
		"no memory":        {{"CONFIG", "SET", "maxmemory", "1"}},
		"no replicas":      {{"CONFIG", "SET", "min-replicas-to-write", "1"}},
	}, func(t *testing.T, commands [][]any) {
		c := onReal(t, 1)
		c.do(0, "SET", "name", "token", "PX", long.Milliseconds())
		for _, command := range commands {
			c.do(0, command[0].(string), command[1:]...)
		}
		require.EqualValues(t, "token", only(t, inspect(t, c.locker(), "name").Holders).Token)
	})
}

// The danger: a server that still loads its data is taken for one that holds nothing.
func TestLoading_IsNoAnswer(t *testing.T) {
	t.Parallel()
	if testredis.IsOld(t, testredis.Real(t, 1)[0]) {
		t.Skip("it answers after each 2 MB of data only")
	}
	// A key takes so long that no test lives to see the last one; the server answers after each.
	c := onReal(t, 3, "--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024", "--rdbcompression", "no")
	c.doAll("SET", "name", "token", "PX", long.Milliseconds())
	for i := range 2 {
		c.do(i, "EVAL", "for i = 1, 3000 do redis.call('SET', 'key' .. i, string.rep('x', 1100)) end", 0)
		c.do(i, "SAVE")
		c.servers[i].Stop()
		c.servers[i].Start()
		require.Equal(t, "1", c.info(i, "persistence", "loading"))
	}
	locker := c.locker()
	s, err := locker.Inspect(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.EqualValues(t, "token", only(t, s.Nodes[2].Holders).Token)
	for _, n := range s.Nodes[:2] {
		require.ErrorContains(t, n.Err, "LOADING")
	}
	require.ErrorIs(t, errOf(locker.ForceUnlock(t.Context(), "nothing")), redlock.ErrNoQuorum)
}

// otherWays returns URLs that lead to the server of a process in ways that look like another server.
func otherWays(t *testing.T, c *cluster) map[string]string {
	t.Helper()
	port, socket := c.port(0), filepath.Join(c.processes[0].Dir(), "redis.sock")
	return map[string]string{
		"host name":                     fmt.Sprintf("redis://localhost:%s", port),
		"host name, another database":   fmt.Sprintf("redis://localhost:%s/1", port),
		"unix socket":                   "unix://" + socket,
		"unix socket, another database": "unix://" + socket + "?db=1",
	}
}

// eventuallyWithoutKeys waits until the servers that run are empty, all of their databases.
func (c *cluster) eventuallyWithoutKeys() {
	c.tb.Helper()
	for _, p := range c.processes {
		if p.PID() != 0 {
			eventually(c.tb, func() bool {
				keyspace, err := redis.String(p.Do("INFO", "keyspace"))
				return err == nil && !strings.Contains(keyspace, "keys=")
			}, "%s is empty", p.Addr())
		}
	}
}

// The danger: the same server configured twice under two names.
func TestTryLock_AServerUnderTwoNamesDoesNotCountTwice(t *testing.T) {
	t.Parallel()
	// The third node never comes up, so the server would need both of its votes.
	c := onReal(t, 2, "--unixsocket", "redis.sock")
	c.processes[1].Stop()
	for way, url := range otherWays(t, c) {
		t.Run(way, func(t *testing.T) {
			locker := lockerOver(t, open(t, []string{c.servers[0].URL(), url, c.servers[1].URL()}))
			for range 10 {
				_, err := locker.TryLock(t.Context(), "name")
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				refusal := as[*redlock.QuorumError](t, err)
				require.Len(t, refusal.Nodes, 3)
				// Which of the two votes comes first is open; the other one is refused with the first one's address.
				first, twin := refusal.Nodes[0], refusal.Nodes[1]
				if errors.Is(first.Err, nodeerr.ErrSameServer) {
					first, twin = twin, first
				}
				require.NotErrorIs(t, first.Err, nodeerr.ErrSameServer)
				require.ErrorIs(t, twin.Err, nodeerr.ErrSameServer)
				require.ErrorContains(t, twin.Err, first.Addr)
			}
			c.eventuallyWithoutKeys()
		})
	}
}

func TestTryLock_TwoDatabasesOfAServerCountOnce(t *testing.T) {
	t.Parallel()
	c := onReal(t, 2, "--unixsocket", "redis.sock")
	for way, url := range otherWays(t, c) {
		if !strings.HasSuffix(way, "another database") {
			continue // the server may say no to itself there, and no is then what counts
		}
		t.Run(way, func(t *testing.T) {
			locker := lockerOver(t, open(t, []string{c.servers[0].URL(), url, c.servers[1].URL()}))
			for range 10 {
				lock := take(t, locker, "name") // with the other server it is two of three
				require.NoError(t, lock.Extend(t.Context(), 2*long))
				require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
				unlock(t, lock)
				c.eventuallyWithoutKeys()
			}
		})
	}
}

func TestPing_IsNilIfAMajorityWouldGrantALock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(prefixed)
		require.NoError(t, locker.Ping(t.Context()))
		c.eventuallyEmpty()
		lock := take(t, locker, "ping") // whatever its name
		require.NoError(t, locker.Ping(t.Context()))
		unlock(t, lock)

		c.servers[0].Stop()
		require.NoError(t, locker.Ping(t.Context()))
		c.servers[1].Stop()
		err := locker.Ping(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "redlock: ping: no quorum of nodes: 1 of 3 nodes said yes, 2 needed: ")
		require.Equal(t, "ping", c.refused(err).Op)

		require.EqualError(t, locker.Ping(over(t)), "redlock: ping: context canceled")
		require.NoError(t, locker.Close())
		require.ErrorIs(t, locker.Ping(t.Context()), redlock.ErrClosed)
	})
}

func TestPing_NoticesAQuarantine(t *testing.T) {
	t.Parallel()
	locker := lockerOver(t, onReal(t, 1).nodes(pool.WithRestartGuard(time.Hour)))
	require.ErrorIs(t, locker.Ping(t.Context()), nodeerr.ErrQuarantined)
}
