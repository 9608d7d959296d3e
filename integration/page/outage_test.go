package page_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// many has 500 locks held on all servers, with texts of their holders. A process listens for them.
func many(t *testing.T, servers []*testredis.Process) {
	t.Helper()
	const script = `
		for i = 1, 500 do
			local token = string.format('%s.%028d:checkout-%d', ARGV[1], i, i % 7)
			redis.call('SET', string.format('lock:orders/%04d', 4000 + i), token, 'PX', 600000 + 1000 * i)
		end`
	testredis.Subscribe(t, servers, form.OwnerChannel("ABCDEFGH"))
	for _, server := range servers {
		_, err := server.Do("EVAL", script, 0, "ABCDEFGH")
		require.NoError(t, err)
	}
}

// waits shows the servers a process that waits for a lock.
func waits(t *testing.T, servers []*testredis.Process, name string) {
	t.Helper()
	testredis.Subscribe(t, servers, form.WaitChannel("lock:"+name))
}

func TestPage_KeepsTheFilterAndTheOrderFromPageToPage(t *testing.T) {
	servers := testredis.Real(t, 3)
	many(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0"), browse(t)
	b.open(s.url)
	b.see("#locks .tally", "500 locks. Page 1 of 10.")
	b.do(chromedp.SetValue(chromedp.CSS("input[name=q]"), "CHECKOUT-3"))
	b.press("form[role=search] button")
	b.see("#locks .tally", "72 of 500 locks. Page 1 of 2.")
	b.press("#locks thead th:nth-child(5) a")
	b.see("#locks thead th[aria-sort]", "Time left")
	first := b.text("#locks tbody tr:first-child .name")
	b.press("#page-next")
	b.see("#locks .tally", "72 of 500 locks. Page 2 of 2.")
	b.see("#locks thead th[aria-sort]", "Time left")
	require.Equal(t, 22, value[int](b, `document.querySelectorAll("#locks tbody tr").length`))
	value[string](b, `window.same = "not reloaded"`)
	last := b.text("#locks tbody tr:last-child .name")
	for _, server := range servers {
		_, err := server.Do("DEL", "lock:"+last)
		require.NoError(t, err)
	}
	b.see("#locks .tally", "71 of 499 locks. Page 2 of 2.") // it is live
	require.Equal(t, 21, value[int](b, `document.querySelectorAll("#locks tbody tr").length`))
	require.Equal(t, "not reloaded", value[string](b, `window.same`))
	b.press("#page-previous")
	b.see("#locks .tally", "71 of 499 locks. Page 1 of 2.")
	require.Equal(t, first, b.text("#locks tbody tr:first-child .name"))
}

func TestPage_ShowsManyLocksOnANarrowScreen(t *testing.T) {
	servers := testredis.Real(t, 5)
	many(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	b.open(s.url + "?page=5")
	b.see(".pages", "Previous")
	b.fits(390)
	require.Less(t, value[int](b, `document.querySelector("#locks").offsetHeight`), 5200)
	lines := `document.querySelector("#locks tbody tr").offsetHeight / parseFloat(getComputedStyle(document.body).lineHeight)`
	require.Less(t, value[float64](b, lines), 5.0, "lines of a row")
}

func TestPage_FreesNothingInAnOutage(t *testing.T) {
	servers := testredis.Real(t, 5)
	alice := program(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	b.noisy = true // one answer is a conflict
	b.open(s.url)
	held := take(t, alice, "orders/4711", "checkout-7")
	take(t, alice, "report", "reader-1", redlock.Shared())
	b.see("#locks tbody", `(?s)orders/4711.*Unlock.*report.*Unlock`)
	dialog := b.another()
	dialog.noisy = true
	dialog.open(s.url + "unlock?name=orders/4711")
	dialog.see("button.danger", "Remove it from 5 nodes")
	for _, server := range servers[2:] {
		server.Stop()
	}
	b.front()
	b.see("#locks", "No lock can be freed now: only 2 of 5 nodes answer, and 3 are needed.")
	b.see("#locks tbody", `(?s)orders/4711\s+perhaps checkout-7\s+\? 2 of 5, the others do not answer.*report\s+perhaps 1 reader: reader-1`)
	require.NotContains(t, b.text("#locks tbody"), "Unlock")
	b.fits(390)
	b.open(s.url + "lock?name=orders/4711")
	b.see("#lock dl", "(?s)unknown on 2 of 5 nodes, the others do not answer.*Perhaps held by\\s+checkout-7.*Known last\\s+held by checkout-7, at ")
	require.NotContains(t, b.text("#lock .top"), "Unlock")
	b.fits(390)
	dialog.front()
	dialog.press("button.danger")
	dialog.see("main", "(?s)Nothing was removed.*It cannot be freed now: only 2 of 5 nodes answer, and 3 are needed.")
	dialog.fits(390)
	require.Empty(t, dialog.text("button.danger"))
	for _, server := range servers[:2] {
		value, err := server.Do("EXISTS", "lock:orders/4711")
		require.NoError(t, err)
		require.EqualValues(t, 1, value)
	}
	for _, server := range servers[2:] {
		server.Start()
	}
	_ = held
}

func TestPage_EndsOneReader(t *testing.T) {
	servers := testredis.Real(t, 5)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	b.open(s.url)
	b.see("#locks", "No locks are held")
	var readers []*redlock.Lock
	for i := range 3 {
		readers = append(readers, take(t, program(t, servers), "report", fmt.Sprintf("reader-%d", i+1), redlock.Shared()))
	}
	waits(t, servers, "report")
	b.see("#locks tbody tr", `3 readers: reader-1, reader-2\s+\+1\s+1 waits`)
	b.fits(390)
	b.press("#locks tbody a")
	b.see("#lock .sharers tbody", `(?s)reader-1.*5 of 5.*reader-2.*5 of 5.*reader-3.*5 of 5`)
	b.fits(390)
	b.press(".sharers tr:nth-child(2) .button")
	b.see("h1", "^End the reader reader-2 of report\\?$")
	b.fits(390)
	b.press("button.danger")
	b.see("main", "What was shown is ended: 5 of 5 nodes do not have it any more")
	for i, lock := range readers {
		if i == 1 {
			require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
			continue
		}
		require.NoError(t, lock.Extend(t.Context(), pageTTL))
	}
}

// ratio is the expression for the least contrast of a text of a page with what is behind it, with that text.
const ratio = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgba = (text) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = text;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const c = rgba(getComputedStyle(e).backgroundColor);
			if (c[3] === 255) return c;
		}
		return [255, 255, 255, 255];
	};
	let worst = [99, ""];
	for (const e of document.querySelectorAll("body *")) {
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim());
		if (!own || e.closest("noscript, script, .unseen") || !e.getClientRects().length) continue;
		const [a, b] = [light(rgba(getComputedStyle(e).color)), light(behind(e))];
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (contrast < worst[0]) worst = [contrast, e.outerHTML.slice(0, 200)];
	}
	return worst[0] < 4.5 ? worst.join(" ") : "";
})()`

// The contrast that WCAG 2 wants for texts is 4.5.
func TestPage_HasContrastInBothColourSchemes(t *testing.T) {
	servers := testredis.Real(t, 5)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	for i := range 2 {
		take(t, program(t, servers), "report", fmt.Sprintf("reader-%d", i+1), redlock.Shared())
	}
	many(t, servers)
	waits(t, servers, "report")
	_, err := servers[0].Do("SET", "lock:split", "token", "PX", 600_000)
	require.NoError(t, err)
	b.open(s.url)
	b.see("#locks tbody", "held by nobody")
	look := func() {
		t.Helper()
		for _, page := range []string{"", "lock?name=report", "lock?name=orders/4001", "unlock?name=report", "?q=report"} {
			b.open(s.url + page)
			b.see("main", "report|orders")
			for _, scheme := range []string{"light", "dark"} {
				_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
				})
				require.NoError(t, err)
				require.Empty(t, value[string](b, ratio), "%s in %s", page, scheme)
			}
		}
	}
	look()
	for _, server := range servers[2:] {
		server.Stop()
	}
	b.open(s.url)
	b.see("#locks", "perhaps")
	look()
	for _, server := range servers[2:] {
		server.Start()
	}
}
