package web_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// tokenOf returns the token of a holder that calls itself so.
func tokenOf(who string) string {
	return "ABCDEFGH." + fmt.Sprintf("%028x", who) + ":" + who
}

// joins adds a sharer of a lock on some of the nodes. A slot below 0 means a reader.
func joins(t *testing.T, on []*testredis.Process, name, who string, slot int) {
	t.Helper()
	mark := "|shared"
	if slot >= 0 {
		mark = "|slots"
		do(t, on, "ZADD", "{lock:"+name+"}:slots", slot, tokenOf(who))
	}
	do(t, on, "SET", "lock:"+name, mark, "PX", 600_000)
	do(t, on, "ZADD", "{lock:"+name+"}:sharers", time.Now().Add(10*time.Minute).UnixMilli(), tokenOf(who))
}

// endOf returns the address of the dialog that ends one sharer.
func endOf(name, who string) string {
	return "/unlock?" + url.Values{"name": {name}, "token": {base64.RawURLEncoding.EncodeToString([]byte(tokenOf(who)))}}.Encode()
}

// sharing returns who shares a lock, by what the nodes have.
func sharing(t *testing.T, on []*testredis.Process, name string) (all []string) {
	t.Helper()
	for i, server := range on {
		found, err := redis.Strings(server.Do("ZRANGE", "{lock:"+name+"}:sharers", 0, -1))
		require.NoError(t, err)
		for j := range found {
			_, found[j], _ = strings.Cut(found[j], ":")
		}
		if i > 0 {
			require.Equal(t, all, found)
		}
		all = found
	}
	return all
}

// table returns the texts of the cells of the table of sharers, a line for each.
func table(page string) (lines []string) {
	_, body, _ := strings.Cut(page, `<table class="sharers">`)
	body, _, _ = strings.Cut(body, "</table>")
	for _, row := range regexp.MustCompile(`(?s)<tr[^>]* class=.*?</tr>`).FindAllString(body, -1) {
		row = regexp.MustCompile(`<code>.*?</code>`).ReplaceAllString(row, "")
		lines = append(lines, strings.Join(strings.Fields(tags.ReplaceAllString(row, " ")), " "))
	}
	return lines
}

func TestSharers_AreNamedInARowAndEachOnThePageOfTheLock(t *testing.T) {
	s := overReal(t, nil)
	s.see("/", "No locks are held")
	for i, who := range []string{"alice", "bob", "carol"} {
		joins(t, s.servers, "report", who, -1)
		joins(t, s.servers, "pool", who, 2-i)
	}
	joins(t, s.servers[:1], "report", "dave", -1)
	s.see("/", "3 readers: alice, bob, &#43;1")
	s.see("/", "3 slots: alice, bob, &#43;1")
	about := s.see("/lock?name=report", "dave")
	lines := table(about)
	require.Len(t, lines, 4)
	for i, who := range []string{"alice", "bob", "carol"} {
		require.Regexp(t, "^"+who+" kept ● 3 of 3 (under 1|[0-9]+) s 9 min 5[0-9] s$", lines[i])
	}
	require.Regexp(t, "^dave kept ◐ 1 of 3 no majority ", lines[3])
	require.NotContains(t, about, "/unlock")
	require.Contains(t, about, "> 4 readers<", "of one node")
	lines = table(s.see("/lock?name=pool", "carol"))
	require.Regexp(t, "^alice kept slot 2 ● 3 of 3 ", lines[0])
	require.Regexp(t, "^carol kept slot 0 ● 3 of 3 ", lines[2])
	page := s.see("/?q=carol", "2 of 2 locks")
	require.Len(t, rows(page), 2, "the filter finds who shares a lock")
}

// The danger: a button beside one reader that ends others.
func TestUnlock_EndsOnlyTheOneThatItWasAbout(t *testing.T) {
	s := overReal(t, allowed)
	for kind, slot := range map[string]int{"reader": -1, "slot": 3} {
		name := kind + " job"
		joins(t, s.servers, name, "alice", slot)
		joins(t, s.servers, name, "bob", min(slot, 1))
		about := s.see("/lock?name="+url.QueryEscape(name), "bob")
		require.Contains(t, about, `href="`+strings.NewReplacer("&", "&amp;", "+", "&#43;").Replace(endOf(name, "bob"))+`"`)
		page := s.see(endOf(name, "bob"), "End the "+kind+" bob of "+name+"?")
		require.Contains(t, page, "It is on 3 of 3 nodes, a majority.")
		require.Len(t, table(page), 1)
		require.NotContains(t, page, "alice")
		require.Equal(t, size, strings.Count(page, "will be removed"))
		joins(t, s.servers, name, "carol", min(slot, 2))
		f := form(page)
		page = s.unlock(f, http.StatusOK)
		require.Contains(t, page, "Ended: the "+kind+" bob of "+name)
		require.Contains(t, page, "What was shown is ended: 3 of 3 nodes do not have it any more.")
		record := fmt.Sprintf("key=%q removed=3 nodes=3 holder=\"bob\"", "lock:"+name)
		require.Eventually(t, func() bool { return strings.Contains(s.log.String(), record) }, 20*time.Second, 10*time.Millisecond, record)
		require.Equal(t, []string{"alice", "carol"}, sharing(t, s.servers, name))
		require.Equal(t, size, s.holds("lock:"+name))
		page = s.unlock(f, http.StatusConflict)
		require.Contains(t, page, "none of the nodes that answered has the "+kind+" any more")
		for _, who := range []string{"alice", "carol"} {
			s.unlock(form(s.see(endOf(name, who), who)), http.StatusOK)
		}
		require.Zero(t, s.holds("lock:"+name), "the mark goes with the last one")
	}
}

func TestUnlock_EndsOneOnTheNodesThatHaveIt(t *testing.T) {
	s := overReal(t, allowed)
	joins(t, s.servers, "name", "alice", -1)
	joins(t, s.servers[:1], "name", "bob", -1)
	page := s.see(endOf("name", "bob"), "It is on 1 of 3 nodes, no majority: it does not hold the lock.")
	require.Equal(t, 2, strings.Count(page, "> does not have it<"))
	f := form(page)
	page = s.unlock(f, http.StatusOK)
	require.Equal(t, 2, strings.Count(page, "> did not have it<"))
	require.Equal(t, []string{"alice"}, sharing(t, s.servers, "name"))
	f = form(s.see(endOf("name", "alice"), "a majority"))
	do(t, s.servers, "DEL", "{lock:name}:sharers")
	s.set("lock:name", "token of a writer")
	page = s.unlock(f, http.StatusConflict)
	require.Contains(t, page, "Nothing was removed")
	require.Equal(t, size, s.holds("lock:name"), "another has the lock now")
	for _, bad := range []string{"?", strings.Repeat("a", 2000)} {
		code, page := s.get("/unlock?name=name&token=" + bad)
		require.Equal(t, http.StatusBadRequest, code)
		require.Contains(t, page, "the token of the one to end cannot be read")
		values := url.Values{"secret": f["secret"], "name": f["name"], "holder": f["holder"], "token": {"?"}}
		s.unlock(values, http.StatusBadRequest)
	}
	require.Equal(t, size, s.holds("lock:name"))
}

func TestUnlock_NamesAllThatItEnds(t *testing.T) {
	s := overReal(t, allowed)
	for i := range 40 {
		joins(t, s.servers, "name", fmt.Sprintf("reader-%02d", i), -1)
	}
	page, f := s.confirm("name")
	require.Contains(t, page, "These are ended:")
	for i := range 40 {
		require.Contains(t, page, fmt.Sprintf(`title="reader-%02d"`, i))
	}
	joins(t, s.servers, "name", "late", -1)
	s.unlock(f, http.StatusOK)
	require.Equal(t, []string{"late"}, sharing(t, s.servers, "name"))
}

// The danger: a majority is away, and a button ends a reader on two of five nodes.
func TestUnlock_EndsNobodyIfTooFewNodesAnswer(t *testing.T) {
	s := overReal(t, allowed)
	joins(t, s.servers, "name", "alice", -1)
	f := form(s.see(endOf("name", "alice"), "a majority"))
	s.see("/lock?name=name", `>End<`)
	s.servers[0].Stop()
	s.servers[1].Stop()
	page := s.see("/lock?name=name", "1 of 3 nodes, the others do not answer")
	require.Contains(t, page, "<dt>Perhaps held by</dt><dd>1 reader</dd>")
	require.NotContains(t, page, `>End<`)
	require.NotContains(t, page, `href="/unlock`)
	page = s.see(endOf("name", "alice"), "It is on 1 of 3 nodes: the nodes that do not answer decide whether it holds the lock.")
	require.Contains(t, page, "It cannot be freed now: only 1 of 3 nodes answer, and 2 are needed.")
	require.Empty(t, form(page))
	page, _ = s.confirm("name")
	require.Regexp(t, `^alice \? 1 of 3 perhaps `, table(page)[0])
	require.Contains(t, page, "Who shares it:")
	s.unlock(f, http.StatusConflict)
	require.Equal(t, []string{"alice"}, sharing(t, s.servers[2:], "name"))
}

// readersOf returns a lock that some share, on all of three nodes.
func readersOf(names ...string) survey.Lock {
	l := survey.Lock{Name: "name", Verdict: redlock.VerdictHeld, Kind: redlock.KindShared, TTL: time.Hour, On: 3}
	for _, name := range names {
		l.Holders = append(l.Holders, survey.Holder{Holder: redlock.Holder{Token: redlock.Token(tokenOf(name)), Metadata: name, TTL: time.Hour, Nodes: 3}})
	}
	return l
}

func TestSharers_AreSeenSinceTheyCame(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		since := func() string {
			_, page := l.get("/lock?name=name")
			var all []string
			for _, line := range table(page) {
				all = append(all, strings.Replace(line, "● 3 of 3 ", "", 1))
			}
			return regexp.MustCompile(` (1 h 00 min|59 min 5\d s)`).ReplaceAllString(strings.Join(all, ", "), "")
		}
		l.hold(readersOf("alice"))
		require.Regexp(t, `^alice ≥ [2-4] s$`, since(), "it was there before")
		l.hold(readersOf("alice", "bob"))
		require.Regexp(t, `^alice ≥ [6-8] s, bob [2-4] s$`, since())
		l.answer(2)
		l.hold(readersOf("alice"))
		l.answer(3)
		l.hold(readersOf("alice", "bob", "carol"))
		require.Regexp(t, `^alice ≥ 1[4-6] s, bob ≥ [2-4] s, carol ≥ [2-4] s$`, since(), "a node was away that may have had them")
		l.hold(readersOf("carol"))
		l.hold(readersOf("alice", "carol"))
		require.Regexp(t, `^alice [2-4] s, carol ≥ 1[0-2] s$`, since(), "it came again")
		partial := readersOf("alice", "carol")
		partial.More = true
		l.hold(partial)
		l.hold(readersOf("alice", "bob", "carol"))
		require.Regexp(t, `^alice 1[0-2] s, bob ≥ [2-4] s, `, since(), "it may have been one of those who were not shown")
		<-time.After(time.Hour)
		l.hold(readersOf("alice", "dave"))
		require.Regexp(t, `^alice.*, dave ≥ [2-4] s$`, since(), "nobody watched")
	})
}

func TestSharers_AreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		var names []string
		for i := range web.MaxSharers + 7 {
			names = append(names, fmt.Sprintf("reader-%04d", i))
		}
		many := readersOf(names...)
		many.More = true
		page := l.hold(many)
		require.Contains(t, page, fmt.Sprintf("over %d readers: reader-0000, reader-0001, &#43;%d", len(names), len(names)-2))
		_, about := l.get("/lock?name=name")
		require.Len(t, table(about), web.MaxSharers)
		require.Contains(t, about, "7 more are not shown: <code>redlock inspect</code>")
	})
}

func TestPage_ShowsWhoWaitsAndWhatIsKept(t *testing.T) {
	kept := func(l survey.Lock, which ...int) survey.Lock {
		for _, i := range which {
			l.Holders[i].Kept = true
		}
		return l
	}
	one := held("name", "t", time.Hour)
	one.Holders = []survey.Holder{{Holder: redlock.Holder{Token: "t", Nodes: 3}}}
	wait := func(n int) survey.Lock { l := one; l.Waiting = n; return l }
	keptOne := one
	keptOne.Holders = []survey.Holder{{Holder: redlock.Holder{Token: "t", Nodes: 3}, Kept: true}}
	for about, test := range map[string]struct {
		lock    survey.Lock
		who, on string
		says    []string
	}{
		"nobody waits":         {wait(0), "t", "● 3 of 3", nil},
		"it is not known":      {wait(-1), "t", "● 3 of 3", nil},
		"one waits":            {wait(1), "t 1 waits", "● 3 of 3", []string{"<dd>1 waits</dd>"}},
		"two wait":             {wait(2), "t 2 wait", "● 3 of 3", []string{"<dd>2 wait</dd>"}},
		"a lock is kept":       {keptOne, "t", "● 3 of 3 kept", []string{"<b>Kept.</b> No process listens for the holder. &#34;run --at-least&#34;", "may not subscribe."}},
		"one reader is kept":   {kept(readersOf("a", "b"), 1), "2 readers: a, b", "● 3 of 3 1 kept", []string{"No process listens for 1 of the 2 readers."}},
		"both are kept":        {kept(readersOf("a", "b"), 0, 1), "2 readers: a, b", "● 3 of 3 kept", []string{"No process listens for 2 of the 2 readers."}},
		"nobody has shown who": {readersOf(), "readers", "● 3 of 3", nil},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := overListings(t, allowed)
				who, on, _ := cells(t, l.hold(test.lock))
				require.Equal(t, test.who, who)
				require.Equal(t, test.on, on)
				_, page := l.get("/lock?name=name")
				for _, text := range test.says {
					require.Contains(t, page, text)
				}
				require.Equal(t, strings.Contains(test.on, "kept"), strings.Contains(page, "No process listens"))
				require.Equal(t, strings.Contains(test.who, "wait"), strings.Contains(page, "<dt>Processes</dt>"))
			})
		})
	}
}
