package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
)

// cells returns the texts of the only row of a page: who holds the lock, on which nodes, and the button.
func cells(t *testing.T, page string) (who, on, button string) {
	t.Helper()
	cell := func(class string) string {
		match := regexp.MustCompile(`(?s)<td class="` + class + `">(.*?)</td>`).FindStringSubmatch(page)
		require.NotNil(t, match, page)
		return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(match[1], "")), " ")
	}
	return cell("who"), cell("on"), cell("do")
}

// The danger: an outage, in which nobody is told who holds a lock, or a button frees it on two of five nodes.
func TestPage_ShowsWhoMayHoldALockOfWhichTooLittleIsKnown(t *testing.T) {
	const unlock = "Unlock name"
	for nodes, want := range map[string]struct{ who, on, button string }{
		"aaaaa": {"a", "● 5 of 5", unlock},
		"aaa--": {"a", "● 3 of 5", unlock},
		"aa---": {"perhaps a", "? 2 of 5, the others do not answer", ""},
		"a----": {"perhaps a", "? 1 of 5, the others do not answer", ""},
		"aa.--": {"perhaps a", "? 2 of 5, 2 do not answer", unlock},
		"aab--": {"perhaps a or b", "? 3 of 5, the others do not answer", unlock},
		"b----": {"perhaps b", "? 1 of 5, the others do not answer", ""},
		"ab.--": {"perhaps a or b", "? 2 of 5, 2 do not answer", unlock},
		"aab.-": {"perhaps a", "? 2 of 5, 1 does not answer", unlock},
		"aa..~": {"perhaps a", "? 2 of 5, 1 is not known", unlock},
		"ab..-": {"nobody", "◐ 2 of 5 held by nobody", unlock},
		"ab---": {"perhaps a or b", "? 2 of 5, the others do not answer", ""},
		"baa--": {"perhaps a or b", "? 3 of 5, the others do not answer", unlock},
		"abc--": {"perhaps one of 3", "? 3 of 5, the others do not answer", unlock},
		"aa.~~": {"perhaps a", "? 2 of 5, 2 are not known", unlock},
		"AA~~.": {"perhaps a", "? 2 of 5, 2 are not known", unlock},
	} {
		t.Run(nodes, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := overBoard(t, func(c *web.Config) { c.AllowUnlock = true })
				b.show(l, nodes)
				_, page := l.get("/")
				who, on, button := cells(t, page)
				require.Equal(t, want, struct{ who, on, button string }{who, on, button})
				require.Equal(t, strings.Count(nodes, "-") > 2, strings.Contains(page, "No lock can be freed now: only "))
				_, page = l.get("/lock?name=name")
				require.Equal(t, button != "", strings.Contains(page, `href="/unlock?name=name"`))
				if name, is := strings.CutPrefix(who, "perhaps "); is {
					require.Contains(t, page, "<dt>Perhaps held by</dt><dd>"+name+"</dd>")
					_, nodes, _ := strings.Cut(on, ", ")
					require.Contains(t, page, "of 5 nodes, "+nodes)
				}
				require.Equal(t, button == "", strings.Contains(page, "It cannot be freed now: only "))
			})
		})
	}
}

func TestPage_SaysWhyNothingIsKnownOfALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := overBoard(t, nil)
		for nodes, why := range map[string]string{"---..": "too few nodes answer", "~~~..": "too few nodes list all of their locks"} {
			b.show(l, nodes)
			_, page := l.get("/lock?name=name")
			require.Contains(t, page, "unknown: "+why, nodes)
		}
	})
}

func TestPage_SaysWhoHeldALockWhenThatWasKnownLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := overBoard(t, nil)
		for step, known := range map[string]bool{"aaaaa": false, "---..": true, "--a--": true} {
			b.show(l, "aaaaa")
			b.show(l, step)
			_, page := l.get("/lock?name=name")
			require.Equal(t, known, strings.Contains(page, "<dt>Known last</dt><dd>held by a, at "), step)
		}
	})
}

// The danger: a button that removes what two of three nodes do not have to give, while the lock stays held.
func TestUnlock_RemovesNothingIfTooFewNodesAnswer(t *testing.T) {
	s := overReal(t, allowed)
	s.set("lock:name", "token")
	_, f := s.confirm("name")
	s.servers[0].Stop()
	page := s.unlock(f, http.StatusOK)
	require.Contains(t, page, "The lock is free: 2 of 3 nodes do not hold it any more")
	s.servers[1].Stop()
	do(t, s.servers[2:3], "SET", "lock:name", "token")
	const reason = "It cannot be freed now: only 1 of 3 nodes answer, and 2 are needed."
	page, none := s.confirm("name")
	require.Contains(t, page, "Unknown: the nodes that do not answer decide")
	require.Contains(t, page, reason)
	require.NotContains(t, page, "will be removed")
	require.Empty(t, none, "no form")
	page = s.unlock(f, http.StatusConflict)
	require.Contains(t, page, "Nothing was removed.")
	require.Contains(t, page, reason)
	exists, err := s.servers[2].Do("EXISTS", "lock:name")
	require.NoError(t, err)
	require.EqualValues(t, 1, exists)
}

// Two of three nodes let the lock be seen, and not removed.
func TestUnlock_SaysThatTheLockMayStillBeHeld(t *testing.T) {
	s := overReal(t, allowed)
	s.set("lock:name", "token")
	_, f := s.confirm("name")
	do(t, s.servers[:2], "ACL", "SETUSER", "default", "-del")
	page := s.unlock(f, http.StatusOK)
	require.Contains(t, page, "The lock may still be held: only 1 of 3 nodes are known not to hold it, 2 are needed.")
	require.Contains(t, page, "<h1>Perhaps not unlocked: name</h1>")
	require.Contains(t, page, "the ACL user may not do this")
}

func TestUnlock_LeavesALockAloneThatDataOfAProgramKeepsFromBeingFreed(t *testing.T) {
	s := overReal(t, allowed)
	s.set("lock:name", "token")
	_, f := s.confirm("name")
	do(t, s.servers[1:], "DEL", "lock:name")
	do(t, s.servers[1:], "RPUSH", "lock:name", "data")
	page := s.unlock(f, http.StatusConflict)
	require.Contains(t, page, "only 1 of 3 nodes answer without data of another program, and 2 are needed.")
	require.Equal(t, size, s.holds("lock:name"))
	require.NotContains(t, s.see("/", "<b>data of another program</b>"), `href="/unlock`)
}
