package page_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/integration/internal/tool"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	settleBound = 30 * time.Second // for what the page shows without a date
	settleLook  = 20 * time.Millisecond
)

// site is redlock web.
type site struct {
	url   string
	child *testredis.Child
}

var announced = regexp.MustCompile(`^redlock: (http://127\.0\.0\.1:\d+/) `)

// serve starts redlock web over the servers, with more flags. It ends with the test.
func serve(t *testing.T, servers []*testredis.Process, listen string, flags ...string) *site {
	t.Helper()
	args := append([]string{"web", "--listen", listen, "--nodes", strings.Join(testredis.URLs(servers), ","), "--key-prefix", "lock:", "--interval", "200ms"}, flags...)
	cmd := exec.Command(tool.Build(t, "../.."), args...)
	cmd.Stderr = t.Output()
	out, in, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout = in
	child, err := testredis.StartChild(cmd)
	in.Close()
	require.NoError(t, err)
	t.Cleanup(child.Kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "redlock web printed %q", line)
	match := announced.FindStringSubmatch(line)
	require.NotNil(t, match, line)
	return &site{match[1], child}
}

// browser is a tab of Chromium. Its console must stay empty: it shows errors, and what the policy of the page has stopped.
type browser struct {
	t        *testing.T
	ctx      context.Context
	problems []string // what the console has shown; complete once reading is closed
	reading  chan struct{}
	noisy    bool // the console shows what the test does on purpose
}

// browse opens Chromium. Without one the test is skipped, or fails if CI=true.
func browse(t *testing.T) *browser {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	path, err := exec.LookPath(names[0])
	for i := 1; err != nil && i < len(names); i++ {
		path, err = exec.LookPath(names[i])
	}
	if err != nil {
		const missing = "Chromium is not installed (make setup)"
		require.NotEqual(t, "true", os.Getenv("CI"), missing)
		t.Skip("tests in a browser are left out: " + missing)
	}
	// Without a folder of our own for its data: the driver makes one, and removes it however long processes of Chromium write there.
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	quiet := func(string, ...any) {} // messages of newer versions of Chromium that the driver does not know
	ctx, end := chromedp.NewContext(context.Background(),
		chromedp.WithAllocatorOptions(opts...), chromedp.WithErrorf(quiet), chromedp.WithLogf(quiet))
	return (&browser{t: t, ctx: ctx, reading: make(chan struct{})}).attended(end)
}

// another opens one more tab of the same browser, or one more window.
func (b *browser) another(opts ...chromedp.ContextOption) *browser {
	b.t.Helper()
	ctx, end := chromedp.NewContext(b.ctx, opts...)
	return (&browser{t: b.t, ctx: ctx, reading: make(chan struct{})}).attended(end)
}

// attended reads the console of a tab until the test ends, and closes the tab then.
func (b *browser) attended(end context.CancelFunc) *browser {
	b.t.Helper()
	b.t.Cleanup(func() {
		if b.t.Failed() {
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
			b.t.Logf("the page at the end:\n%s", text)
		}
		leave, stop := context.WithTimeout(b.ctx, settleBound)
		defer stop()
		_ = chromedp.Cancel(leave)
		end()
		<-b.reading
		require.True(b.t, b.noisy || len(b.problems) == 0, "the console shows %q", b.problems)
	})
	messages := chromedp.Console(b.ctx)
	go b.read(messages)
	b.do(chromedp.EmulateViewport(1400, 1000))
	return b
}

// read notes what the console shows, until the browser ends.
func (b *browser) read(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	defer close(b.reading)
	for m, err := range messages {
		if err != nil {
			return
		}
		if strings.Contains(m.String(), "net::ERR_NETWORK_CHANGED") {
			continue // another test has started a container
		}
		b.problems = append(b.problems, fmt.Sprintf("%s: %s %s", m.Source, m, m.URL))
	}
}

// do carries out actions.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, settleBound)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// value returns what an expression comes to.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, settleBound)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err, expression)
	return v
}

// open opens a page.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// front makes a tab the one that is looked at.
func (b *browser) front() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, settleBound)
	defer cancel()
	_, err := chromedp.Call(ctx, page.BringToFront, cdp.Empty{})
	require.NoError(b.t, err)
}

// press follows the link, or presses the button, that is the first to match a selector: by the keyboard, since an element of a
// live page may move between a look at where it is and a click there.
func (b *browser) press(selector string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(selector), kb.Enter))
}

// texts is the expression for the text of all elements that match a selector.
func texts(selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.innerText).join("\n")`, selector)
}

// text returns the text of all elements that match a selector.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return value[string](b, texts(selector))
}

// see waits until the text of the elements that match a selector matches a pattern. The page may be on its way to another one.
func (b *browser) see(selector, pattern string) {
	b.t.Helper()
	wanted := regexp.MustCompile(pattern)
	ctx, cancel := context.WithTimeout(b.ctx, settleBound)
	defer cancel()
	look := time.NewTicker(settleLook)
	defer look.Stop()
	for ; ; <-look.C {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](texts(selector)))
		if err == nil && wanted.MatchString(text) {
			return
		}
		require.NoError(b.t, ctx.Err(), "%s never shows %s, but %q (%v)", selector, pattern, text, err)
	}
}

// fits checks that a page of a width needs no scrolling sideways.
func (b *browser) fits(width int) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(int64(width), 800))
	over := value[[]string](b, fmt.Sprintf(`[...document.querySelectorAll("body, body *")]
		.filter((e) => e.getBoundingClientRect().right > %d + 0.5 && !e.closest(".unseen, thead"))
		.map((e) => e.outerHTML.slice(0, 200))`, width))
	require.Empty(b.t, over, "these are wider than the screen of %d", width)
	require.LessOrEqual(b.t, value[int](b, `document.documentElement.scrollWidth`), width)
}
