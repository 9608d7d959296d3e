package web_test

import (
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
