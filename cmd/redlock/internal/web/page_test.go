package web_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestPage_CountsDownBetweenTwoLooksAtTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, func(c *web.Config) { c.Interval = time.Minute })
		l.locks = []survey.Lock{held("name", "a", 90*time.Second)}
		var seen []string
		for range 4 {
			_, page := l.get("/")
			seen = append(seen, regexp.MustCompile(`<td class="left"><span>([^<]*)`).FindStringSubmatch(page)[1])
			<-time.After(time.Second)
		}
		require.Equal(t, []string{"1 min 30 s", "1 min 29 s", "1 min 28 s", "1 min 27 s"}, seen)
	})
}

// share returns how full the bar of the only lock on a page is, in percent.
func share(t *testing.T, page string) int {
	t.Helper()
	match := regexp.MustCompile(`<rect width="(\d+)" height="4"/></svg></td>`).FindStringSubmatch(page)
	require.NotNil(t, match, page)
	percent, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return percent
}

// The danger: the time left is compared with for ever.
func TestPage_ShowsTheTimeLeftOfALockThatHadNoTTLBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("name", "a", redlock.NoLimit))
		require.Greater(t, share(t, l.hold(held("name", "a", time.Hour))), 98)
		require.InDelta(t, 50, share(t, l.hold(held("name", "a", 30*time.Minute))), 2)
	})
}

// rows returns the names of the locks on a page, in their order.
func rows(page string) (names []string) {
	for _, row := range regexp.MustCompile(`<tr id="lock-.*\n.*title="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		names = append(names, row[1])
	}
	return names
}

// The danger: one lock that nobody can take, below hundreds that are well.
func TestPage_ShowsWhatIsWrongFirst(t *testing.T) {
	for prefix, first := range map[string][]string{"lock:": {"data", "empty", "forever", "split"}, "": {"empty", "forever", "split"}} {
		synctest.Test(t, func(t *testing.T) {
			l := overListings(t, func(c *web.Config) { c.Prefix = prefix })
			locks := []survey.Lock{
				{Name: "data", Verdict: redlock.VerdictForeign, TTL: redlock.NoLimit, On: 3, Other: true},
				{Name: "empty", Verdict: redlock.VerdictHeld, TTL: time.Hour, On: 3, Empty: true},
				held("forever", "t", redlock.NoLimit), unheld("split", redlock.VerdictNobody),
			}
			for i := range 300 {
				locks = append([]survey.Lock{held(fmt.Sprintf("a-%03d", 299-i), "t", time.Minute)}, locks...)
			}
			page := l.hold(locks...)
			for _, order := range []string{"name", "held", "left"} {
				_, page := l.get("/?sort=" + order)
				require.ElementsMatch(t, first, rows(page)[:len(first)], order)
				require.Equal(t, "a-000", rows(page)[len(first)], order)
				_, page = l.get("/?page=2&sort=" + order)
				require.NotContains(t, rows(page), "split", order)
				require.Contains(t, page, fmt.Sprint(len(first), " need attention</b>."))
			}
			require.Equal(t, first, rows(page)[:len(first)])
			above, _, _ := strings.Cut(page, `<table class="locks">`)
			require.Contains(t, above, "304 locks")
			require.Contains(t, above, fmt.Sprint(len(first), " need attention</b>."))
			require.Contains(t, above, "Page 1 of 7.")
			_, page = l.get("/?q=a-29")
			require.Contains(t, page, "10 of 304 locks")
			require.NotContains(t, page, "need attention")
		})
	}
}

// The danger: rows that jump to the top for the time of a round in which a program takes them.
func TestPage_LeavesALockInItsPlaceWhileARoundIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("a", "t", time.Hour), held("b", "t", time.Hour))
		l.mu.Lock()
		l.locks = []survey.Lock{held("a", "t", time.Hour), unheld("b", redlock.VerdictNobody)}
		l.mu.Unlock()
		seen := map[string]bool{}
		for range 60 {
			_, page := l.get("/")
			if strings.Contains(page, "held by nobody</b>") {
				seen[fmt.Sprint(rows(page), strings.Contains(page, "1 needs attention"))] = true
			}
			<-time.After(time.Second / 10)
		}
		require.Equal(t, map[string]bool{"[a b] false": true, "[b a] true": true}, seen)
	})
}

// The danger: a lock that seems to be held for an hour after its last holder, as the key stays on the nodes.
func TestPage_ShowsThatSharersEndBeforeTheirKey(t *testing.T) {
	s := overReal(t, allowed)
	joins(t, s.servers, "report", "alice", -1)
	do(t, s.servers, "PEXPIRE", "lock:report", (2 * time.Hour).Milliseconds())
	s.see("/lock?name=report", "alice")
	for _, path := range []string{"/lock?name=report", "/unlock?name=report", endOf("report", "alice")} {
		_, page := s.get(path)
		_, nodes, _ := strings.Cut(page, `<table class="holdings">`)
		require.Equal(t, size, strings.Count(nodes, `<td class="left">9 min 5`), nodes)
	}
}

func TestPage_KeepsTimesOfAHolderWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		lock := held("name", "a", time.Hour)
		lock.Metadata = "2026-01-02T03:04:05Z <b>, 2026-01-02T03:04:05.5+01:00, 2026-01-02"
		const cut = `<span class="stamp">2026-01-02T03:04:05Z</span> &lt;b&gt;, <span class="stamp">2026-01-02T03:04:05.5&#43;01:00,</span> 2026-01-02</`
		require.Contains(t, l.hold(lock), cut)
		_, page := l.get("/lock?name=name")
		require.Contains(t, page, cut)
	})
}

// heldFor returns for how long a lock is held by what the page says.
func heldFor(t *testing.T, page, name string) string {
	t.Helper()
	match := regexp.MustCompile(`(?s)title="` + name + `".*?<td class="held">(.*?)</td>`).FindStringSubmatch(page)
	require.NotNil(t, match, page)
	return strings.Join(strings.Fields(tags.ReplaceAllString(match[1], " ")), " ")
}

func TestPage_ShowsForHowLongALockIsHeldAsFarAsItWasSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		old, name := held("old", "o", time.Hour), held("name", "a", time.Hour)
		l.hold(old)
		l.watch(time.Minute, time.Second)
		page := l.hold(name, old)
		require.Regexp(t, "^≥ 1 min 0[4-8] s$", heldFor(t, page, "old"), "it was there before")
		require.Regexp(t, "^(under 1|[1-3]) s$", heldFor(t, page, "name"))
		l.watch(time.Hour, time.Minute)
		page = l.hold(name, old)
		require.Equal(t, "1 h 00 min", heldFor(t, page, "name"), "it is renewed")
		_, about := l.get("/lock?name=name")
		require.Contains(t, about, "<dt>Held for</dt><dd>1 h 00 min</dd>")
		_, page = l.get("/?sort=held")
		require.Equal(t, []string{"old", "name"}, rows(page), "the longest first")
		require.Contains(t, page, `aria-sort="descending"><a href="/?sort=held">Held for`)

		page = l.hold(held("name", "b", time.Hour), old)
		require.Regexp(t, "^(under 1|[1-3]) s$", heldFor(t, page, "name"), "another holder")
		<-time.After(time.Hour)
		page = l.hold(held("name", "c", time.Hour), old)
		require.Regexp(t, "^≥ [1-3] s$", heldFor(t, page, "old"), "nobody watched")
		require.Regexp(t, "^≥ [1-3] s$", heldFor(t, page, "name"), "nobody watched when it was taken")

		split := unheld("name", redlock.VerdictNobody)
		require.Empty(t, heldFor(t, l.hold(split, old), "name"))
		require.Regexp(t, "^(under 1|[1-3]) s$", heldFor(t, l.hold(held("name", "c", time.Hour), old), "name"), "the majority is there again")

		<-time.After(time.Hour)
		l.hold(unheld("name", redlock.VerdictUnknown), old)
		require.Regexp(t, "^≥ [1-3] s$", heldFor(t, l.hold(held("name", "c", time.Hour), old), "name"), "nobody watched, and then nobody could tell")
	})
}

func TestPage_GroupsWhatTheDoctorHasFound(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		page := l.hold()
		require.Contains(t, page, "2 findings")
		require.Equal(t, 1, strings.Count(page, "evicts &lt;keys&gt;"))
		require.Contains(t, page, "<code>a:1</code>, <code>b:1</code>")
		require.NotContains(t, page, `href="javascript`)
	})
}

func TestPage_IsShownWhenTheNodesTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, func(c *web.Config) {
			c.List = func(ctx context.Context) (*survey.Listing, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		began := time.Now()
		_, page := l.get("/")
		require.Contains(t, page, "The locks are being listed")
		require.NotContains(t, page, "The nodes are being asked")
		require.Less(t, time.Since(began), time.Minute, "of the bubble's clock")
	})
}

// The danger: one slow node with many keys keeps the page about all nodes from being shown, or from being up to date.
func TestPage_ShowsTheNodesWhileTheLocksAreListed(t *testing.T) {
	ask := make(chan struct{})
	s := overReal(t, listing(ask))
	s.set("lock:name", "token")
	page := s.see("/", "All 3 nodes answer")
	require.Contains(t, page, "The locks are being listed")
	s.servers[0].Stop()
	s.see("/", "2 of 3 nodes answer")
	_, page = s.get("/lock?name=name")
	require.Contains(t, page, "The locks are being listed")
	close(ask)
	s.see("/", `href="/lock?name=name"`)
}

func TestRemaining_RoundsDownToTheTwoLargestUnits(t *testing.T) {
	for ttl, want := range map[time.Duration]string{
		redlock.NoLimit: "never expires", 0: "over", time.Millisecond: "under 1 s", 1999 * time.Millisecond: "1 s", 59999 * time.Millisecond: "59 s",
		time.Minute: "1 min 00 s", time.Hour - 1: "59 min 59 s", 25*time.Hour - 1: "1 d 00 h", 90 * time.Minute: "1 h 30 min",
	} {
		require.Equal(t, want, web.Remaining(ttl), "%d", ttl)
	}
}

func TestLatency_HasAboutThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "no answer", 87 * time.Microsecond: "0.09 ms", 1234 * time.Microsecond: "1.23 ms", 45670 * time.Microsecond: "45.7 ms", time.Second: "1000 ms",
	} {
		require.Equal(t, want, web.Latency(d))
	}
}

func TestSparkline_ShowsWhatWasNotAnswered(t *testing.T) {
	const ms = time.Millisecond
	lines, misses, label := web.Spark([]time.Duration{2 * ms, 4 * ms, -1, -1, 2 * ms}, 4*ms)
	require.Equal(t, []string{"111,14.0 113,1.0", "119,14.0 119,14.0"}, lines, "the newest is at the right end")
	require.Equal(t, []int{115, 117}, misses)
	require.Equal(t, "Latencies of the last 5 tries: from 2.00 ms to 4.00 ms, 2 without an answer.", label)
	lines, misses, label = web.Spark([]time.Duration{-1}, ms)
	require.Empty(t, lines)
	require.Len(t, misses, 1)
	require.Equal(t, "No answer in the last 1 tries.", label)
}
