package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const pageTTL = 10 * time.Minute // longer than any of these tests

// program returns a Locker like that of a program that uses the locks of the page.
func program(t *testing.T, servers []*testredis.Process) *redlock.Locker {
	t.Helper()
	l, err := redlock.Open(testredis.URLs(servers), redlock.WithKeyPrefix("lock:"), redlock.TTL(pageTTL),
		pool.WithTimeout(time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// take takes a lock, with a text of its holder.
func take(t *testing.T, l *redlock.Locker, name, holder string, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	lock, err := l.Lock(t.Context(), name, append(opts, redlock.Metadata(holder))...)
	require.NoError(t, err)
	return lock
}

func TestPage_ShowsWhatHappensWithoutBeingReloaded(t *testing.T) {
	servers := testredis.Real(t, 5)
	alice, bob := program(t, servers), program(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0"), browse(t)
	b.open(s.url)
	value[string](b, `window.same = "not reloaded"`)
	b.see("#live", "^Live$")
	b.see("#summary", "All 5 nodes answer")
	b.see("#locks", "No locks are held under the prefix lock:")
	b.see("#doctor", `\d+ checks at`)

	// A lock appears, and its time runs down.
	const hostile = `<img src=x onerror=alert(1)>`
	held := take(t, alice, "invoice-4711", "alice "+hostile, redlock.TTL(time.Minute)) // the page shows seconds
	b.see("#locks tbody tr", `invoice-4711\s+alice <img src=x onerror=alert\(1\)>\s`)
	b.see("#locks tbody tr", `5 of 5`)
	left := b.text("#locks .left span")
	b.see("#locks .left span", `^(?:[^`+left[:1]+`]|.[^`+left[1:2]+`])`)

	// It changes hands.
	b.see("#changes", `invoice-4711 taken\s+alice`)
	require.NoError(t, held.Unlock(t.Context()))
	held = take(t, bob, "invoice-4711", "bob")
	b.see("#locks tbody tr", `invoice-4711\s+bob\s`)
	b.see("#changes", `changed hands\s+now bob|taken\s+bob(?s:.*)freed\s+was alice`)

	// A node dies, and comes back without the lock.
	servers[4].Stop()
	b.see(".node.down", servers[4].Addr()+`(?s:.*)no answer`)
	b.see("#summary", "4 of 5 nodes answer. 3 are needed.")
	b.see("#locks tbody tr", `4 of 5`)
	servers[4].Start()
	b.see("#summary", "All 5 nodes answer")
	require.Empty(t, b.text(".node.down"))

	// Two more are too many.
	for _, server := range servers[2:] {
		server.Stop()
	}
	b.see("#summary", "Only 2 of 5 nodes answer, and 3 are needed")
	b.see("#locks", "The locks cannot be judged")
	for _, server := range servers[2:] {
		server.Start()
	}
	b.see("#summary", "All 5 nodes answer")
	b.see("#locks tbody tr", "2 of 5 held by nobody")

	require.Equal(t, "not reloaded", value[string](b, `window.same`))
	_ = held.Unlock(t.Context())
}

// The danger: a browser makes six connections to a host at most, and a page that keeps one for itself takes it from the others.
func TestPage_WorksInTenTabsAndTenWindowsOfOneBrowser(t *testing.T) {
	for name, opts := range map[string][]chromedp.ContextOption{"tabs": nil, "windows": {chromedp.WithNewWindow(true)}} {
		t.Run(name, func(t *testing.T) {
			servers := testredis.Real(t, 3)
			alice := program(t, servers)
			s, first := serve(t, servers, "127.0.0.1:0"), browse(t)
			pages := []*browser{first}
			for len(pages) < 10 {
				pages = append(pages, first.another(opts...))
			}
			for _, b := range pages {
				b.open(s.url)
				b.see("body:not(.stale) #live", "^Live$")
				b.see("#locks", "No locks are held")
			}
			take(t, alice, "invoice-4711", "alice")
			for _, b := range pages {
				b.front()
				b.see("#locks tbody tr", `invoice-4711\s+alice`)
			}
			for _, b := range pages {
				b.front()
				b.press("#locks tbody a")
				b.see("h1", "^invoice-4711$")
				b.see("body:not(.stale) #live", "^Live$")
			}
		})
	}
}

func TestPage_ShowsTheHistoryOfALock(t *testing.T) {
	servers := testredis.Real(t, 5)
	alice := program(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0"), browse(t)
	b.open(s.url)
	b.see("#live", "^Live$")
	b.see("#locks", "No locks are held") // what the first listing finds is not known to have been taken
	held := take(t, alice, "a/name & <b>more</b>", "alice")
	b.see("#locks tbody tr", `a/name & <b>more</b>`)
	b.press("#locks tbody a")
	b.see("h1", `^a/name & <b>more</b>$`)
	b.see(".state", "held on 5 of 5 nodes")
	b.see("#lock dl", string(held.Token()[:8]))
	b.see("#lock .changes", `taken\s+alice(?s:.*)watched from here on`)
	require.NoError(t, held.Unlock(t.Context()))
	b.see(".state", "held by nobody")
	b.see("#lock .changes", `freed\s+was alice(?s:.*)taken\s+alice`)
}

func TestPage_UnlocksByTheButtonAfterAConfirmation(t *testing.T) {
	servers := testredis.Real(t, 5)
	alice := program(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	b.open(s.url)
	held := take(t, alice, "stuck job", "alice")
	b.see("#locks tbody tr", `stuck job(?s:.*)5 of 5`)
	b.press("#locks .button")
	b.see("h1", "Unlock stuck job?")
	b.see("table", `will be removed(?s:.*)will be removed(?s:.*)will be removed`)
	require.NoError(t, held.Err())
	b.press("button.danger")
	b.see("h1", "Unlocked: stuck job")
	b.see("main", "The lock is free: 5 of 5 nodes do not hold it any more")
	b.press("main section a.button")
	b.see("#locks", "No locks are held")
	b.see("#changes", `stuck job freed\s+was alice`)
	require.ErrorIs(t, held.Unlock(t.Context()), redlock.ErrNotHeld)
}

func TestPage_WorksWithoutScript(t *testing.T) {
	servers := testredis.Real(t, 5)
	alice := program(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	b.open(s.url)
	b.see("#locks", "No locks are held")
	held := take(t, alice, "invoice-4711", "alice")
	b.see("#locks tbody tr", `invoice-4711\s+alice`) // the page reloads itself
	b.see("#live", "^$")
	b.see("header a[href='']", "Reload")
	b.see("form[action='/'][method=get] button", "Filter")
	b.open(s.url + "?q=nothing+like+it") // as that form does
	b.see("#locks", `No lock has “nothing like it”`)
	b.open(s.url + "unlock?name=invoice-4711")
	b.press("button.danger")
	b.see("main", "The lock is free")
	require.ErrorIs(t, held.Unlock(t.Context()), redlock.ErrNotHeld)
}

func TestPage_SaysThatItIsNotLiveAndRecovers(t *testing.T) {
	servers := testredis.Real(t, 4)
	address := servers[3].Addr() // a port that no connection gets while nobody listens there
	servers[3].Stop()
	servers = servers[:3]
	s, b := serve(t, servers, address), browse(t)
	b.noisy = true
	b.open(s.url)
	b.see("#live", "^Live$")
	s.child.Kill()
	b.see(".stale #live", "Not live: reconnecting …")
	serve(t, servers, address)
	b.see("body:not(.stale) #live", "^Live$")
}

func TestPage_CutsLongTextsAndShowsThemWhole(t *testing.T) {
	servers := testredis.Real(t, 3)
	alice := program(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	b.open(s.url)
	b.see("#locks", "No locks are held")
	name, holder := strings.Repeat("long/name-", 20), strings.Repeat("holder of it ", 19)[:240]
	take(t, alice, name, holder)
	b.see("#changes", "taken")
	for _, width := range []int64{360, 1200} {
		b.do(chromedp.EmulateViewport(width, 800))
		require.LessOrEqual(t, value[float64](b, `document.querySelector("#locks tbody tr[id]").offsetHeight / parseFloat(getComputedStyle(document.body).lineHeight)`), 8.0, "lines")
		require.LessOrEqual(t, value[float64](b, `document.querySelector("#changes li").offsetHeight / parseFloat(getComputedStyle(document.body).lineHeight)`), 4.0, "lines")
	}
	for _, title := range []string{name, holder} {
		require.Equal(t, 2, value[int](b, fmt.Sprintf(`[...document.querySelectorAll("[title]")].filter((e) => e.title === %q).length`, title)), "in the table and in the changes")
	}
	b.press("#locks tbody a")
	b.see("#lock dl", holder)
	b.see("h1", name)
}

func TestPage_NeedsNoScrollingSidewaysOnANarrowScreen(t *testing.T) {
	servers := testredis.Real(t, 5)
	alice := program(t, servers)
	servers[1].Stop()
	long := strings.Repeat("x", 300)
	for _, name := range []string{"invoice-4711", long, strings.Repeat("a word ", 30)} {
		take(t, alice, name, strings.Repeat("h", 200))
	}
	_, err := servers[0].Do("SET", "lock:forever", long)
	require.NoError(t, err)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	b.noisy = true // one page is an error
	for _, page := range []string{"", "?q=" + long[:200], "lock?name=" + long, "unlock?name=" + long, "unlock?name="} {
		b.open(s.url + page)
		b.see("main", `\w`)
		b.fits(360)
		b.fits(780)
		b.fits(1160)
		b.fits(1400)
	}
}
