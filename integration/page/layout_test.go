package page_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// clipped is the expression for the texts that match a selector and do not fit in their boxes.
func clipped(selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)]
		.filter((e) => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText)`, selector)
}

// broken is the expression for the words, which match a pattern, that are broken over lines in the elements that match a selector.
func broken(selector, word string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].flatMap((cell) => {
		const all = [], walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
		for (let node; node = walk.nextNode();) {
			for (const { 0: word, index } of node.data.matchAll(/%s/g)) {
				const range = document.createRange();
				range.setStart(node, index);
				range.setEnd(node, index + word.length);
				if (range.getClientRects().length > 1) all.push(word);
			}
		}
		return all;
	})`, selector, word)
}

// The danger: beside the buttons is so little room that one does not see who holds a lock, and how many do.
func TestPage_ShowsWhoHoldsALockBesideTheButtons(t *testing.T) {
	servers := testredis.Real(t, 3)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	text := func(pid int) string {
		return fmt.Sprintf("backup-7d9f8b pid %d: pg_dump, started 2026-01-02T03:04:05Z", pid)
	}
	take(t, program(t, servers), "nightly/backup", text(21410))
	for i := range 4 {
		take(t, program(t, servers), "exports", text(21411+i)+", one of 4 slots", redlock.Slots(4))
	}
	b.open(s.url)
	b.see("#locks tbody", `(?s)exports\s+4 slots: backup-7d9f8b pid 21411: pg_dump, .*backup-7d9f8b pid 21412: pg_dump, .*\+2.*Unlock.*nightly/backup.*Z`)
	for _, width := range []int64{1280, 390} {
		b.do(chromedp.EmulateViewport(width, 900))
		require.Empty(t, value[[]string](b, clipped("#locks tbody .who .cut")), width)
		require.Empty(t, value[[]string](b, clipped("#locks tbody .who")), width)
	}
	b.fits(390)
	title := value[string](b, `document.querySelector("#locks tbody .who .cut").title`)
	require.Contains(t, title, text(21411)+", one of 4 slots, "+text(21412)+", one of 4 slots, +2")
}

// The danger: since when a lock is held is broken into pieces that nobody reads as a time.
func TestPage_BreaksNoTimeOfAHolder(t *testing.T) {
	servers := testredis.Real(t, 3)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	const text = "db-3 pid 21410: pg_dump, started 2026-01-02T03:04:05Z"
	take(t, program(t, servers), "nightly/backup", text)
	take(t, program(t, servers), "tenants/acme/reindex", text)
	take(t, program(t, servers), "exports", "a-host-with-a-longer-name "+text+", one of 4 slots", redlock.Slots(4))
	times := broken("main td.who, main dl div:not(.long) dd", `\d{4}-\d\d-\d\dT[\d:]+Z`)
	for _, page := range []string{"", "lock?name=nightly/backup", "lock?name=exports"} {
		b.open(s.url + page)
		b.see("main", `started 2026-01-02T03:04:05Z`)
		for _, width := range []int64{360, 390, 780, 910, 920, 1240, 1250, 1280, 1440} {
			b.do(chromedp.EmulateViewport(width, 900))
			require.Empty(t, value[[]string](b, times), "%d: %s", width, page)
		}
		b.fits(360)
		b.fits(920)
	}
	b.open(s.url)
	b.see("#locks tbody", "started 2026")
	b.do(chromedp.EmulateViewport(1280, 900))
	const lines = `document.querySelector(".who .cut:has(.stamp)").offsetHeight / parseFloat(getComputedStyle(document.body).lineHeight)`
	require.Less(t, value[float64](b, lines), 2.5, "lines")
	for _, width := range []int64{920, 970, 1160, 1250, 1280} {
		b.do(chromedp.EmulateViewport(width, 900))
		require.Greater(t, value[float64](b, `document.querySelector(".locks th").offsetWidth`), 140.0, "%d: room for the name", width)
		require.Empty(t, value[[]string](b, broken("#locks .name", `[a-z]+`)), "%d: a name is broken at slashes", width)
	}
}

func TestPage_BreaksNoAddressInAnOutage(t *testing.T) {
	servers := testredis.Real(t, 5)
	s, b := serve(t, servers, "127.0.0.1:0"), browse(t)
	take(t, program(t, servers), "orders/4711", strings.Repeat("a text ", 28))
	for _, server := range servers[2:] {
		server.Stop()
	}
	b.open(s.url + "lock?name=orders/4711")
	b.see("#lock .holdings", `(?s)(the holder|a token).*not known: .*refused`)
	addresses := broken(".holdings td:nth-child(-n+2)", `[\w.:]+`)
	for _, width := range []int64{1280, 900, 780, 390} {
		b.do(chromedp.EmulateViewport(width, 900))
		require.Empty(t, value[[]string](b, addresses), width)
	}
	// An error of a connection that was open names both ends. The page that follows has the true one again.
	const both = `document.querySelector(".holdings tbody tr:last-child .mark").nextSibling.data = " not known: read tcp 10.0.0.9:51234->10.0.0.1:6379: i/o timeout", `
	b.do(chromedp.EmulateViewport(1280, 900))
	require.Empty(t, value[[]string](b, both+addresses))
	for _, width := range []int{390, 780, 1280} {
		b.fits(width)
	}
	for _, server := range servers[2:] {
		server.Start()
	}
}
