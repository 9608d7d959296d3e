package web_test

import (
	"context"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
)

// findings returns the texts of the findings on a page, without times of day.
func findings(page string) (texts []string) {
	for _, item := range regexp.MustCompile(`(?s)<li class="(?:fault|warning)[^"]*">(.*?)<details>`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(tags.ReplaceAllString(item[1], " "), "TIME")
		texts = append(texts, strings.Join(strings.Fields(text), " "))
	}
	return texts
}

// The danger: a fault of a node that was mended, or that is away now, looks as if it were there.
func TestExamination_SaysWhenItsFindingsWereTrue(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		page := l.hold()
		want := []string{"✕ fault on a:1 , b:1 at TIME evicts &lt;keys&gt;", "▲ warning on b:1 at TIME is old"}
		require.Equal(t, want, findings(page))
		require.NotContains(t, page, "Since then")
		at := regexp.MustCompile(`The doctor had 2 findings at (\d\d:\d\d:\d\d)</a>`).FindStringSubmatch(page)
		require.NotNil(t, at, page)
		require.Contains(t, page, "checks at "+at[1]+": 2 findings.")
		l.answer(1)
		page = l.hold()
		require.Equal(t, []string{"✕ fault on a:1 , b:1 at TIME evicts &lt;keys&gt; Since then: b:1 does not answer now.", "▲ warning on b:1 at TIME is old Since then: b:1 does not answer now."},
			findings(page))
		l.answer(3)
		page = l.hold()
		require.Contains(t, page, "Since then: <code>b:1</code> was away; <code>c:1</code> was away.")
		require.Equal(t, "▲ warning on b:1 at TIME is old Since then: b:1 was away.", findings(page)[1])
		l.watch(time.Minute, time.Second)
		page = l.hold()
		require.NotContains(t, page, "was away", "they were examined once more")
	})
}

// The danger: the doctor examines the nodes for as long as they do not answer, and what it had found hours before looks new.
func TestExamination_SaysHowOldItIsWhileTheNextOneRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var again atomic.Bool
		l := overListings(t, func(c *web.Config) {
			c.Examine = func(ctx context.Context) (*doctor.Report, error) {
				if again.Swap(true) {
					<-ctx.Done()
				}
				return &doctor.Report{Checks: []string{"one"}}, nil
			}
		})
		require.Contains(t, l.hold(), ": no findings.")
		<-time.After(59 * time.Second)
		page := l.hold()
		require.Contains(t, page, "The doctor examines the nodes")
		require.Contains(t, page, ", 1 minute ago: nothing was found then.")
		<-time.After(2 * time.Hour)
		_, page = l.get("/")
		require.Contains(t, page, ", 2 hours ago: nothing was found then.")
	})
}

// A server that restarts within a moment is never seen to be away.
func TestExamination_SaysThatANodeHasRestartedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Int64
		up.Store(1000)
		l := overListings(t, func(c *web.Config) { c.ExamineEvery = 0 })
		l.uptime = up.Load
		require.NotContains(t, l.hold(), "has restarted")
		<-time.After(time.Minute)
		up.Store(5)
		require.Contains(t, l.hold(), "<code>a:1</code> has restarted")
		up.Store(1000)
		require.NotContains(t, l.hold(), "has restarted")
	})
}
