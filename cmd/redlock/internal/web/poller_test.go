package web_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestPoller_AsksOnlyWhileSomebodyLooks(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		<-time.After(time.Hour)
		asked, examined := l.times()
		require.Zero(t, asked)
		require.Zero(t, examined)

		l.get("/")
		<-time.After(time.Hour)
		asked, examined = l.times()
		require.Greater(t, asked, 1)
		require.LessOrEqual(t, asked, 100, "somebody looked once")
		require.Equal(t, 1, examined)

		before := asked
		l.watch(10*time.Minute, time.Second)
		asked, now := l.times()
		require.InDelta(t, 600, asked-before, 10, "once in a second")
		require.InDelta(t, 10, now-examined, 1, "once in a minute")
		<-time.After(2 * time.Minute)
		asked, _ = l.times()
		<-time.After(time.Hour)
		later, _ := l.times()
		require.Equal(t, asked, later)
	})
}

func TestPoller_AsksOnceForAllPages(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		for range 60 {
			for range 10 {
				l.get("/")
			}
			<-time.After(time.Second)
		}
		asked, _ := l.times()
		require.InDelta(t, 60, asked, 5)
	})
}

var tags = regexp.MustCompile(`(?s)<[^>]*>|\s+`)

// history returns the text of the history of a lock, the newest first.
func (l *listings) history(name string) string {
	l.t.Helper()
	_, page := l.get("/lock?name=" + name)
	_, page, found := strings.Cut(page, "<h2>History</h2>")
	require.True(l.t, found)
	text := tags.ReplaceAllString(page, " ")
	text = regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(text, "")
	return strings.Join(strings.Fields(text), " ")
}

func TestHistory_RecordsWhatHappensToALock(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("old", "o", time.Hour))
		l.hold(held("old", "o", time.Hour), held("name", "a", time.Hour))
		l.hold(held("old", "o", time.Hour), held("name", "b", time.Hour))
		require.Equal(t, "· watched from here on", l.history("old"), "it was held already")
		l.hold(held("name", "b", time.Hour))
		l.hold()
		l.hold(held("name", "c", time.Second/2))
		l.hold()
		require.Equal(t, "◌ expired was c ● taken c ○ freed was b ⇄ changed hands now b ● taken a · watched from here on", l.history("name"))
		require.Equal(t, "○ freed was o · watched from here on", l.history("old"))
		l.hold(held("name", "d", time.Hour))
		l.hold(unheld("name", redlock.VerdictNobody))
		l.hold(held("name", "d", time.Hour))
		l.hold(survey.Lock{Name: "name", Verdict: redlock.VerdictForeign, On: 3, Other: true})
		require.True(t, strings.HasPrefix(l.history("name"), "○ freed was d ● majority again was d ◐ no majority was d ● taken d ◌ expired"), l.history("name"))
	})
}

func TestHistory_ForgetsNothingWhileNodesAreAway(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("name", "a", time.Hour))
		l.answer(1)
		require.Contains(t, l.hold(), "The locks cannot be judged: no quorum of nodes")
		require.Contains(t, l.history("name"), "watched from here on")
		l.answer(3)
		l.hold(held("name", "a", time.Hour))
		require.Equal(t, "· watched from here on", l.history("name"))
		l.mu.Lock()
		l.cut = true
		l.mu.Unlock()
		require.Contains(t, l.hold(), "There are more locks than are listed here")
		l.hold(held("name", "a", time.Hour), held("other", "a", time.Hour))
		require.Equal(t, "· watched from here on", l.history("name"), "it may have been left out")
		require.Equal(t, "· watched from here on", l.history("other"))
	})
}

// The danger: two of five nodes do not answer, and the history says that the holder has lost the majority, and has it again.
func TestHistory_SaysNothingOfWhatIsUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		doubt := unheld("name", redlock.VerdictUnknown)
		page := l.hold(doubt)
		require.Contains(t, page, "unknown")
		require.NotContains(t, page, ">nobody<")
		l.hold(held("name", "a", time.Hour))
		require.Equal(t, "· watched from here on", l.history("name"), "it may have been held before")
		l.hold(doubt)
		l.hold(held("name", "a", time.Hour))
		require.Equal(t, "· watched from here on", l.history("name"))
		l.hold(doubt)
		l.hold(held("name", "b", time.Hour))
		require.Equal(t, "⇄ found in other hands now b · watched from here on", l.history("name"), "one was known before, another is now")
		l.hold(doubt)
		l.hold()
		require.Equal(t, "○ found freed was b ⇄ found in other hands now b · watched from here on", l.history("name"), "nobody holds it")
		l.hold(doubt)
		l.hold(held("name", "c", time.Hour))
		require.Equal(t, "● found held c ○ found freed was b ⇄ found in other hands now b · watched from here on", l.history("name"), "it was free in between")
		l.hold(doubt)
		l.hold(unheld("name", redlock.VerdictNobody))
		require.True(t, strings.HasPrefix(l.history("name"), "◐ no majority was c ● found held c"), l.history("name"))
	})
}

func TestHistory_SaysWhenTooFewNodesAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("name", "a", time.Hour))
		l.answer(1)
		for range 10 {
			l.hold(held("name", "a", time.Hour))
		}
		l.answer(3)
		l.hold(held("name", "a", time.Hour))
		require.Equal(t, "· not known from to , as too few nodes listed all keys · watched from here on", l.history("name"))
		l.answer(1)
		l.hold()
		<-time.After(time.Hour)
		l.answer(3)
		l.hold(held("name", "a", time.Hour))
		require.Equal(t, "· not watched from to , as no page was open · not known from to , as too few nodes listed all keys · not known from to , as too few nodes listed all keys · watched from here on", l.history("name"))
	})
}

// The danger: nobody watched before and in the middle of an outage, and of that time nothing is said.
func TestHistory_SaysWhenNobodyWatchedAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("name", "a", time.Hour))
		for range 2 {
			<-time.After(time.Hour)
			l.answer(1)
			for range 10 {
				l.hold()
			}
		}
		l.answer(3)
		l.hold(held("name", "a", time.Hour))
		const away, outage = "· not watched from to , as no page was open", "· not known from to , as too few nodes listed all keys"
		require.Equal(t, strings.Join([]string{outage, away, outage, away, "· watched from here on"}, " "), l.history("name"))
	})
}

func TestHistory_SaysWhenNobodyWatched(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("name", "a", time.Hour))
		<-time.After(time.Hour)
		l.hold(held("name", "b", time.Hour))
		require.Equal(t, "⇄ found in other hands now b · not watched from to , as no page was open · watched from here on", l.history("name"))
	})
}

// A browser lets a page that nobody sees ask once in a minute.
func TestHistory_GoesOnWhileThePageIsOpenAndHidden(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("name", "a", time.Hour))
		l.watch(10*time.Minute, time.Minute)
		l.hold()
		require.Equal(t, "○ freed was a · watched from here on", l.history("name"))
		<-time.After(2 * time.Minute)
		l.hold()
		require.Regexp(t, "^· not watched from to .* ○ freed was a · watched from here on$", l.history("name"))
	})
}

func TestHistory_IsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold()
		for i := range 2 * web.MaxEvents {
			l.hold(held("name", fmt.Sprint("token-", i, "."), time.Hour))
		}
		text := l.history("name")
		require.Equal(t, web.MaxEvents, strings.Count(text, "token-"), text)
		require.Contains(t, text, "token-99.")
		require.Contains(t, text, "token-50.")
		var locks []survey.Lock
		for i := range 2 * web.MaxPasts {
			locks = append(locks, held(fmt.Sprintf("lock-%05d", i), "t", time.Hour))
		}
		l.hold(append(locks, held("name", "token-99.", time.Hour))...)
		require.NotContains(t, l.history("name"), "token-", "others have changed since")
		require.NotContains(t, l.history("lock-00001"), "taken")
		require.Contains(t, l.history("lock-01999"), "taken")
	})
}
