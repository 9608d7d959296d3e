package journal_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/journal"
)

var epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// log is a Journal over nodes a, b and so on, with the lines that it wrote.
type log struct {
	*journal.Journal
	now   time.Time
	again time.Time
	lines []string
}

func newLog(nodes int) *log {
	return &log{Journal: journal.New(strings.Split("abcdefg", "")[:nodes]), now: epoch}
}

// look writes the lines that are due.
func (l *log) look() {
	var lines []journal.Line
	lines, l.again = l.Lines(l.now)
	for _, line := range lines {
		text := fmt.Sprintf("%v %v %s", l.now.Sub(epoch), line.Level, strings.TrimPrefix(line.Message, "redlock: "))
		for i := 0; i < len(line.Args); i += 2 {
			text += fmt.Sprintf(" %v=%v", line.Args[i], line.Args[i+1])
		}
		l.lines = append(l.lines, text)
	}
}

// pass lets time go by. It looks when the Journal asks for that.
func (l *log) pass(d time.Duration) {
	for to := l.now.Add(d); ; {
		if l.look(); l.again.IsZero() || l.again.After(to) {
			l.now = to
			return
		}
		l.now = l.again
	}
}

func (l *log) out(nodes ...int) {
	for _, i := range nodes {
		line := journal.Line{Level: slog.LevelWarn, Message: "redlock: a node is down", Args: []any{"node", string(rune('a' + i))}}
		l.Out(l.now, i, journal.Out{Line: line, Reason: "gone"})
	}
}

func (l *log) quarantined(nodes ...int) {
	for _, i := range nodes {
		line := journal.Line{Level: slog.LevelWarn, Message: "redlock: a node does not vote", Args: []any{"node", string(rune('a' + i))}}
		l.Out(l.now, i, journal.Out{Line: line, Reason: "waits"})
	}
}

func (l *log) in(nodes ...int) (told int) {
	for _, i := range nodes {
		if l.In(l.now, i, 7) {
			told++
		}
	}
	return told
}

func (l *log) lost(n int) {
	for i := range n {
		l.Add(l.now, journal.Line{Level: slog.LevelWarn, Message: "redlock: a lock is lost", Args: []any{"name", i}, Outage: true, Lost: true})
	}
}

func (l *log) add(level slog.Level, message string, n int) {
	for range n {
		l.Add(l.now, journal.Line{Level: level, Message: "redlock: " + message})
	}
}

func TestJournal_HasOneLineForOneCause(t *testing.T) {
	for name, tt := range map[string]struct {
		story func(l *log)
		want  []string
	}{
		"one node": {func(l *log) {
			l.out(0)
			l.pass(time.Minute)
			require.Equal(t, 1, l.in(0))
		}, []string{"2s WARN a node is down node=a"}},
		"a node that is back soon": {func(l *log) {
			l.out(0)
			l.pass(journal.Hold - 1)
			require.Zero(t, l.in(0))
		}, nil},
		"a node that fails again and again": {func(l *log) {
			for range 10 {
				l.out(0)
				l.pass(time.Second)
			}
		}, []string{"2s WARN a node is down node=a"}},
		"a node that is back without a vote": {func(l *log) {
			l.out(0)
			l.pass(time.Second)
			l.quarantined(0)
		}, []string{"3s WARN a node does not vote node=a"}},
		"a majority at once": {func(l *log) {
			l.lost(1)
			l.out(0)
			l.pass(time.Second)
			l.out(2, 4)
			l.pass(18 * time.Second)
			l.lost(400)
			l.pass(time.Second)
			l.in(2, 4)
		}, []string{
			"2s WARN no quorum of nodes: no lock is granted need=3 of=5 out=a: gone; c: gone; e: gone",
			"20s WARN a quorum of nodes again after=19s waiting=7 lost=401",
			"22s WARN a node is down node=a",
		}},
		"one after the other": {func(l *log) {
			l.out(0)
			l.pass(5 * time.Second)
			l.out(1)
			l.pass(5 * time.Second)
			l.out(2)
			l.pass(5 * time.Second)
			l.out(3)
			l.pass(5 * time.Second)
			require.Equal(t, 1, l.in(3))
			require.Equal(t, 1, l.in(2))
			l.pass(time.Minute)
		}, []string{
			"2s WARN a node is down node=a",
			"7s WARN a node is down node=b",
			"12s WARN no quorum of nodes: no lock is granted need=3 of=5 out=a: gone; b: gone; c: gone",
			"20s WARN a quorum of nodes again after=10s waiting=7",
			"22s WARN a node is down node=a",
			"22s WARN a node is down node=b",
		}},
		"all restart without data": {func(l *log) {
			l.out(0, 1, 2, 3, 4)
			l.quarantined(0, 1, 2, 3, 4)
			l.pass(10 * time.Second)
			l.in(0, 1, 2, 3, 4)
		}, []string{
			"2s WARN no quorum of nodes: no lock is granted need=3 of=5 out=a: waits; b: waits; c: waits; d: waits; e: waits",
			"10s WARN a quorum of nodes again after=10s waiting=7",
		}},
		"a majority that is back soon, and a lock that was lost": {func(l *log) {
			l.out(0, 1, 2)
			l.lost(1)
			l.pass(time.Second)
			l.in(0, 1, 2)
			l.pass(time.Second)
		}, []string{"2s WARN a lock is lost name=0"}},
		"a line just before the nodes are known to be down": {func(l *log) {
			l.lost(1)
			l.pass(journal.Hold - 1)
			l.out(0, 1, 2)
			l.pass(time.Minute)
		}, []string{"3.999999999s WARN no quorum of nodes: no lock is granted need=3 of=5 out=a: gone; b: gone; c: gone"}},
		"a lock that was lost without an outage": {func(l *log) {
			l.lost(1)
		}, []string{"2s WARN a lock is lost name=0"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(5)
			tt.story(l)
			l.pass(3 * time.Second)
			require.Equal(t, tt.want, l.lines)
		})
	}
}

func TestJournal_WritesTenLinesOfALevelAMinuteAndThenHowManyMore(t *testing.T) {
	l := newLog(1)
	l.add(slog.LevelWarn, "one", 8)
	l.add(slog.LevelInfo, "info", 11)
	l.add(slog.LevelWarn, "two", 5)
	l.add(slog.LevelError, "three", 2)
	l.add(slog.LevelDebug, "debug", 100)
	l.look()
	require.Len(t, l.lines, 10+10+100)
	l.lines = nil
	l.pass(journal.Period)
	require.Equal(t, []string{
		"1m0s INFO more lines than are logged lines=1 about=info (1)",
		"1m0s WARN more lines than are logged lines=5 about=three (2); two (3)",
	}, l.lines)
	require.Zero(t, l.again)
	l.add(slog.LevelWarn, "one", 11)
	l.look()
	require.Len(t, l.lines, 2+10)
	l.Close(l.now)
	l.look()
	require.Equal(t, "1m0s WARN more lines than are logged lines=1 about=one (1)", l.lines[12])
}

// A reader who sees that no lock is granted has to see when that is over.
func TestJournal_AnOutageThatWasWrittenAboutHasAnEnd(t *testing.T) {
	l := newLog(1)
	for range 20 { // the node comes and goes
		l.out(0)
		l.pass(journal.Hold)
		l.in(0)
		l.pass(time.Second)
	}
	begins, ends := 0, 0
	for _, line := range l.lines {
		begins += strings.Count(line, "no lock is granted")
		ends += strings.Count(line, "nodes again ")
	}
	require.Equal(t, 5, begins)
	require.Equal(t, 5, ends)
	l.pass(journal.Period)
	require.Contains(t, strings.Join(l.lines, "\n"), "more lines than are logged lines=30 about=a quorum of nodes again (15); no quorum")
}

func TestJournal_CloseWritesWhatWaitsAndNothingWaitsAfterwards(t *testing.T) {
	l := newLog(3)
	l.out(0, 1) // perhaps the servers are stopped together with the program
	l.lost(2)
	l.Close(l.now)
	l.lost(1)
	l.look()
	require.Equal(t, []string{"0s WARN a lock is lost name=0", "0s WARN a lock is lost name=1", "0s WARN a lock is lost name=0"}, l.lines)
	require.Zero(t, l.again)
}
