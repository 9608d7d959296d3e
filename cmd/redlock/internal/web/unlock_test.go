package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
)

func allowed(c *web.Config) { c.AllowUnlock = true }

// confirm returns the page about an unlock, and its form.
func (s *site) confirm(name string) (page string, f url.Values) {
	s.t.Helper()
	code, page := s.get("/unlock?name=" + url.QueryEscape(name))
	require.Equal(s.t, http.StatusOK, code)
	return page, form(page)
}

// unlock sends the form, whose answer has a code, and returns that.
func (s *site) unlock(f url.Values, code int) (page string) {
	s.t.Helper()
	answer, page := s.request(http.MethodPost, "/unlock", f, nil)
	require.Equal(s.t, code, answer.StatusCode, page)
	return page
}

func TestUnlock_IsRefusedUnlessAllowed(t *testing.T) {
	s := overReal(t, nil)
	s.set("lock:name", "token")
	page := s.see("/", "name")
	require.NotContains(t, page, "/unlock")
	code, _ := s.get("/unlock?name=name")
	require.Equal(t, http.StatusForbidden, code)
	text := s.unlock(url.Values{"secret": form(page)["secret"], "name": {"bmFtZQ"}, "holder": {"dG9rZW4"}}, http.StatusForbidden)
	require.Contains(t, text, "--allow-unlock")
	require.Equal(t, size, s.holds("lock:name"))

	s = overReal(t, allowed)
	s.set("lock:name", "token")
	require.Contains(t, s.see("/", "name"), `href="/unlock?name=name"`)
	s.unlock(url.Values{"secret": form(s.see("/", "Unlock"))["secret"], "name": {"bmFtZQ"}, "holder": {"dG9rZW4"}}, http.StatusOK)
	require.Zero(t, s.holds("lock:name"))
}

func TestUnlock_RemovesWhatWasConfirmed(t *testing.T) {
	s := overReal(t, allowed)
	token := "ABCDEFGH." + strings.Repeat("r", 28) + ":backup of db3"
	for about, value := range map[string]string{"ours": token, "ours with a fencing token": token + "|42", "of another client": "any\r\ntext\xff\x00"} {
		for _, name := range []string{"name", "a/b c&d=e", " x ", "größe", "\u202e"} {
			s.set("lock:"+name, value)
			page, f := s.confirm(name)
			require.Equal(t, size, strings.Count(page, "will be removed"))
			require.Equal(t, about == "of another client", strings.Contains(page, "not of the form of this library"))
			require.Equal(t, size, s.holds("lock:"+name), "asking changes nothing")
			require.Contains(t, page, survey.Overlap)
			page = s.unlock(f, http.StatusOK)
			require.Contains(t, page, "The lock is free: 3 of 3 nodes do not hold it any more")
			require.Zero(t, s.holds("lock:"+name), "%s %q", about, name)
		}
	}
	s.stop() // writes what is left
	require.Contains(t, s.log.String(), `redlock: forced unlock key="lock:a/b c&d=e" removed=3 nodes=3 holder="backup of db3"`)
	require.NotContains(t, s.log.String(), "\r")
}

func TestUnlock_RefusesANameThatNoLockCanHave(t *testing.T) {
	s := overReal(t, allowed)
	s.set("lock:line\nend", "token")
	code, page := s.get("/unlock?name=line%0Aend")
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, page, "control character")
	require.Equal(t, size, s.holds("lock:line\nend"))
}

// The danger: who confirmed that one holder loses the lock takes it from the next one.
func TestUnlock_RemovesNothingIfTheLockHasChangedHands(t *testing.T) {
	s := overReal(t, allowed)
	s.set("lock:name", "first")
	_, f := s.confirm("name")
	for about, change := range map[string]func(){
		"on all nodes": func() { s.set("lock:name", "second") },
		"on one node": func() {
			s.set("lock:name", "first")
			do(t, s.servers[2:3], "SET", "lock:name", "second")
		},
	} {
		change()
		page := s.unlock(f, http.StatusConflict)
		require.Contains(t, page, "has changed hands")
		require.Contains(t, page, "second")
		require.Equal(t, size, s.holds("lock:name"), about)
	}
	s.unlock(form(s.unlock(f, http.StatusConflict)), http.StatusOK)
	require.Zero(t, s.holds("lock:name"))
	page := s.unlock(f, http.StatusConflict)
	require.Contains(t, page, "Nothing was removed: none of the nodes that answered has the lock any more")
}

// The danger: readers who have come since the page was shown are ended with those that it showed.
func TestUnlock_EndsTheReadersThatItHasShown(t *testing.T) {
	s := overReal(t, allowed)
	s.set("lock:name", "|shared")
	share := func(who string) {
		do(t, s.servers, "ZADD", "{lock:name}:sharers", time.Now().Add(time.Hour).UnixMilli(), who)
	}
	share("first")
	share("second")
	require.Contains(t, s.see("/", "readers"), "readers")
	page, f := s.confirm("name")
	require.Contains(t, page, "Held by 2 readers: each is on a majority.")
	require.Equal(t, size, strings.Count(page, "<code>2 readers</code>"))
	require.NotContains(t, page, "not of the form of this library")
	share("third")
	do(t, s.servers[:1], "ZREM", "{lock:name}:sharers", "first")
	page = s.unlock(f, http.StatusOK)
	require.Equal(t, size, strings.Count(page, "> removed<"))
	require.Equal(t, size, s.holds("lock:name"), "for the third")
	for _, server := range s.servers {
		all, err := redis.Strings(server.Do("ZRANGE", "{lock:name}:sharers", 0, -1))
		require.NoError(t, err)
		require.Equal(t, []string{"third"}, all)
	}
	_, f = s.confirm("name")
	do(t, s.servers, "DEL", "{lock:name}:sharers")
	s.unlock(f, http.StatusOK)
	require.Zero(t, s.holds("lock:name"), "a mark that nobody is in")
	s.set("lock:name", "token")
	s.unlock(f, http.StatusConflict)
}

// The danger: a slot that has come since the page was shown is ended with those that it showed.
func TestUnlock_EndsTheSlotsThatItHasShown(t *testing.T) {
	s := overReal(t, allowed)
	s.set("lock:name", "|slots")
	share := func(who string, slot int) {
		do(t, s.servers, "ZADD", "{lock:name}:sharers", time.Now().Add(time.Hour).UnixMilli(), who)
		do(t, s.servers, "ZADD", "{lock:name}:slots", slot, who)
	}
	share("first", 3)
	share("second", 0)
	require.Contains(t, s.see("/", "slots"), "slots")
	require.Contains(t, s.see("/lock?name=name", "slots"), "slots")
	page, f := s.confirm("name")
	require.Contains(t, page, "Held by 2 slots: each is on a majority.")
	require.Equal(t, size, strings.Count(page, "<code>2 slots</code>"))
	share("third", 1)
	page = s.unlock(f, http.StatusOK)
	require.Equal(t, size, strings.Count(page, "> removed<"))
	for _, server := range s.servers {
		for _, key := range []string{"{lock:name}:sharers", "{lock:name}:slots"} {
			all, err := redis.Strings(server.Do("ZRANGE", key, 0, -1))
			require.NoError(t, err)
			require.Equal(t, []string{"third"}, all)
		}
	}
	s.set("lock:name", "|shared")
	s.unlock(f, http.StatusConflict)
}

func TestUnlock_RemovesWhatNoMajorityHolds(t *testing.T) {
	s := overReal(t, allowed)
	for i, value := range []string{"first", "second"} {
		_, err := s.servers[i].Do("SET", "lock:name", value)
		require.NoError(t, err)
	}
	_, f := s.confirm("name")
	require.Len(t, f["holder"], 2)
	page := s.unlock(f, http.StatusOK)
	require.Contains(t, page, "held nothing")
	require.Zero(t, s.holds("lock:name"))
}

func TestUnlock_LeavesDataOfAnotherProgramAlone(t *testing.T) {
	s := overReal(t, allowed)
	do(t, s.servers, "RPUSH", "lock:name", "data")
	_, page := s.get("/unlock?name=name")
	require.Contains(t, page, "data of another program, not a lock")
	require.Contains(t, page, "There is nothing to remove")
	s.unlock(url.Values{"secret": form(s.see("/", "Doctor"))["secret"], "name": {"bmFtZQ"}, "holder": {"ZGF0YQ", ""}}, http.StatusConflict)
	require.Equal(t, size, s.holds("lock:name"))
}

// The danger: two of five nodes are frozen, and who holds the lock with them is said to hold nothing.
func TestUnlock_SaysThatItDoesNotKnowWhoHoldsTheLock(t *testing.T) {
	servers := testredis.Real(t, 5)
	s := over(t, servers, testredis.URLs(servers), func(c *web.Config) { c.AllowUnlock, c.Timeout = true, 2*time.Second })
	do(t, servers[:4], "SET", "lock:name", "token", "PX", 600_000)
	s.see("/lock?name=name", "held on 4 of 5 nodes")
	servers[0].Freeze()
	servers[1].Freeze()
	page := s.see("/", "2 of 5, <b>2 do not answer</b>")
	require.Contains(t, page, `<span class="cut" title="token"><span class="soft">perhaps</span> token</span>`)
	require.NotContains(t, page, "nobody")
	require.NotContains(t, page, "majority")
	page = s.see("/lock?name=name", "unknown on 2 of 5 nodes")
	require.NotContains(t, page, "another token")
	page, _ = s.confirm("name")
	require.Contains(t, page, "Unknown: the nodes that do not answer decide.")
	require.NotContains(t, strings.ToLower(page), "nobody")
	servers[0].Thaw()
	servers[1].Thaw()
	page = s.see("/lock?name=name", "held on 4 of 5 nodes")
	require.NotContains(t, page, "majority", "its history")
	require.NotContains(t, page, "taken")
}

// An empty value keeps everybody else from taking the lock, as any token does.
func TestUnlock_RemovesAnEmptyValue(t *testing.T) {
	s := overReal(t, allowed)
	s.set("lock:name", "")
	s.see("/lock?name=name", "held by an empty value")
	page := s.see("/", `<code>&#34;&#34;</code>`)
	require.NotContains(t, page, "nobody")
	page, f := s.confirm("name")
	require.Contains(t, page, "Held by an empty value")
	require.Equal(t, size, strings.Count(page, "will be removed"))
	require.Equal(t, size, s.holds("lock:name"))
	s.set("lock:name", "next")
	s.unlock(f, http.StatusConflict)
	s.set("lock:name", "")
	page = s.unlock(f, http.StatusOK)
	require.Contains(t, page, "The lock is free: 3 of 3 nodes do not hold it any more")
	require.Zero(t, s.holds("lock:name"))
}

// clogged is a pipe that is full until it is opened.
type clogged struct {
	open chan struct{}
	to   *logged
}

func (c *clogged) Write(p []byte) (int, error) {
	<-c.open
	return c.to.Write(p)
}

// The danger: nobody reads stderr, and the page that has unlocked never answers.
func TestUnlock_DoesNotWaitForWhoReadsTheLog(t *testing.T) {
	log := &clogged{make(chan struct{}), &logged{}}
	s := overReal(t, func(c *web.Config) { c.AllowUnlock, c.Log = true, log })
	for range web.MaxLines + 5 {
		s.set("lock:name", "token")
		_, f := s.confirm("name")
		s.unlock(f, http.StatusOK)
	}
	close(log.open)
	s.stop()
	require.GreaterOrEqual(t, strings.Count(log.to.String(), "forced unlock"), web.MaxLines)
	require.Regexp(t, "[45] lines were lost", log.to.String())
}

// The danger: the one is gone when it is ended, another has the lock by now, and the page says that it may still be there.
func TestUnlock_SaysThatTheOneIsGoneAlready(t *testing.T) {
	later := testredis.Real(t, size) // what the nodes have when they are told to remove it
	nodes, err := pool.Open(testredis.URLs(later), pool.WithTimeout(5*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, n := range nodes {
			require.NoError(t, n.Close())
		}
	})
	s := overReal(t, func(c *web.Config) { c.AllowUnlock, c.Nodes = true, nodes })
	for kind, slot := range map[string]int{"reader": -1, "slot": 3} {
		for about, meanwhile := range map[string]func(name string){
			"others stay":       func(name string) { joins(t, later, name, "alice", min(slot, 1)) },
			"another has taken": func(name string) { do(t, later, "SET", "lock:"+name, tokenOf("writer"), "PX", 600_000) },
		} {
			name := kind + " and " + about
			joins(t, s.servers, name, "bob", slot)
			meanwhile(name)
			page := s.unlock(form(s.see(endOf(name, "bob"), "a majority")), http.StatusOK)
			require.Contains(t, page, "Ended: the "+kind+" bob of "+name)
			require.Equal(t, size, strings.Count(page, "> gone already<"), page)
			require.Contains(t, page, "3 of 3 nodes do not")
			for _, server := range later {
				left, err := server.Do("EXISTS", "lock:"+name)
				require.NoError(t, err)
				require.EqualValues(t, 1, left, "it is not theirs")
			}
		}
	}
}
