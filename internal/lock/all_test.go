package lock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// script drives an All over three nodes. Each line is an input and the step that follows:
//
//	begin, begin bc      nobody comes first at any name, or somebody at some
//	won                  the round is won
//	lost 3-1             the round is lost; others hold its first name on all nodes, its second on none, and its third on one
//	over 3-1             the same, and no other round can help
//	turn, turn bc        it is its turn; others come first at some of the other names
//	turn bad             it is its turn, and a lock that it holds was lost
//	impatient            it has waited for long enough with locks
//	fresh, stale         the locks are extended, or one of them was lost
//	end                  the context has ended
//
// A step is what it does, with the names (ask abc, await b, refresh, have, give up) and before that what becomes of the turn (missed, again),
// of the locks (back) and of the place (leave).
type script struct {
	t     *testing.T
	all   *lock.All
	clock *settable
	turn  bool
}

type settable struct{ now time.Time }

func (c *settable) Now() time.Time { return c.now }

const rtt = time.Millisecond

func newScript(t *testing.T, names int, waits bool) *script {
	c := &settable{start}
	rules := &lock.Rules{Clock: c, Nodes: 3, Pace: lock.Pace{Random: func(time.Duration) time.Duration { return 500 }}}
	return &script{t: t, all: rules.All(names, 8*time.Second, waits), clock: c}
}

func setOf(letters string) (names lock.Names) {
	for _, l := range letters {
		names |= lock.Only(int(l - 'a'))
	}
	return names
}

func (s *script) do(input string) string {
	s.t.Helper()
	what, arg, _ := strings.Cut(input, " ")
	var others []int
	for _, n := range strings.ReplaceAll(arg, "-", "0") {
		others = append(others, int(n-'0'))
	}
	turn := s.turn
	s.turn = what == "turn"
	switch what {
	case "begin":
		return s.shown(s.all.Begin(setOf(arg)), false)
	case "won":
		return s.shown(s.all.Won(), false)
	case "lost", "over":
		step := s.all.Lost(others, rtt, what == "over")
		s.turn = turn && step.Do == lock.AskNames
		return s.shown(step, turn)
	case "turn":
		if arg == "bad" {
			return s.shown(s.all.Turn(false, 0), false)
		}
		return s.shown(s.all.Turn(true, setOf(arg)), false)
	case "impatient":
		return s.shown(s.all.Impatient(), false)
	case "fresh", "stale":
		return s.shown(s.all.Refreshed(what == "fresh"), false)
	case "end":
		return s.shown(s.all.Over(), false)
	}
	s.t.Fatal(input)
	return ""
}

func (s *script) shown(step lock.Step, turn bool) string {
	var words []string
	add := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	add(step.Missed, "missed")
	add(turn && !step.Missed, "again")
	add(step.GiveBack, "back")
	add(step.Leave, "leave")
	letters := ""
	for i := range step.Names.Each() {
		letters += string(rune('a' + i))
	}
	words = append(words, [...]string{
		"ask " + letters, fmt.Sprintf("await %c", 'a'+step.At), "refresh", "have", "give up",
	}[step.Do])
	return strings.Join(words, ", ")
}

func (s *script) run(lines ...string) {
	s.t.Helper()
	for i, line := range lines {
		input, want, _ := strings.Cut(line, ": ")
		require.Equal(s.t, want, s.do(input), "line %d: %s", i+1, input)
	}
}

func TestAll(t *testing.T) {
	// fourLost is a call for a, b, c and d that has lost four turns at b.
	fourLost := []string{
		"begin: ask abcd", "lost -3--: await b", "turn: ask abcd", "lost -3--: missed, await b", "turn: ask abcd", "lost -3--: missed, await b",
		"turn: ask abcd", "lost -3--: missed, await b", "turn: ask abcd",
	}
	after := func(lines ...string) []string { return slices.Concat(fourLost, lines) }
	for name, lines := range map[string][]string{
		"all are free":                           {"begin: ask abcd", "won: have"},
		"others come first at a name":            {"begin cd: await c", "turn: ask abcd", "won: have"},
		"it waits for the first name in the way": {"begin: ask abcd", "lost -13-: await c", "turn: ask abcd", "won: have"},
		"another name is in the way now":         {"begin: ask abcd", "lost -3--: await b", "turn: ask abcd", "lost --3-: again, leave, await c", "end: leave, give up"},
		"another is, and this one still":         {"begin: ask abcd", "lost -3--: await b", "turn: ask abcd", "lost 33--: missed, leave, await a"},
		"others come first at another name":      {"begin: ask abcd", "lost --3-: await c", "turn bd: leave, await b", "turn b: ask abcd", "won: have"},
		"others do at one after the other":       {"begin bd: await b", "turn d: leave, await d", "turn b: leave, await b", "turn d: leave, await d", "turn b: leave, await b", "turn d: ask b", "won: ask acd"},
		"too few nodes answer":                   {"begin: ask abcd", "lost ----: await a", "turn: ask abcd", "lost ----: missed, await a"},
		"no round can help":                      {"begin: ask abcd", "over ---3: give up"},
		"none can help on a turn":                {"begin: ask abcd", "lost -3--: await b", "turn: ask abcd", "over -3--: missed, leave, give up"},
		"in order, behind the first in the way":  after("lost --3-: again, ask ab", "won: await c", "turn: ask c", "won: ask d", "won: refresh", "fresh: have"),
		"in order, and another comes in between": after("lost --3-: again, ask ab", "lost 3-: again, ask b", "won: await a", "turn: ask a",
			"won: ask cd", "lost -1: ask c", "won: await d"),
		"in order, and its turn is lost":         after("lost --3-: again, ask ab", "lost -3: again, ask b", "lost 3: missed, await b", "turn: ask b"),
		"it gives back, and keeps its place":     after("lost --3-: again, ask ab", "won: await c", "impatient: back, await c", "turn: ask c", "won: ask abd", "lost 3--: await a", "impatient: back, await a", "end: leave, give up"),
		"a lock is lost while it waits":          after("lost --3-: again, ask ab", "won: await c", "turn bad: back, ask c", "won: ask abd", "won: refresh"),
		"a lock is lost at the end":              after("lost --3-: again, ask ab", "won: await c", "turn: ask c", "won: ask d", "won: refresh", "stale: back, ask abcd", "lost -3--: ask a"),
		"the context ends while it holds locks":  after("lost --3-: again, ask ab", "won: await c", "end: back, leave, give up"),
		"others hold each name on too few nodes": {"begin: ask abcd", "lost -11-: ask a", "won: await b", "turn: ask bcd", "lost 11-: again, ask b", "won: await c", "turn: ask cd", "won: refresh"},
	} {
		t.Run(name, func(t *testing.T) { newScript(t, 4, true).run(lines...) })
	}
	for name, lines := range map[string][]string{
		"all are free":                           {"begin: ask abc", "won: have"},
		"others come first at a name":            {"begin c: ask abc"},
		"others hold a name":                     {"begin: ask abc", "lost -2-: give up"},
		"others hold each name on too few nodes": {"begin: ask abc", "lost -11: ask a", "won: ask b", "won: ask c", "won: refresh", "fresh: have"},
		"one of them is taken meanwhile":         {"begin: ask abc", "lost -11: ask a", "won: ask b", "lost 3: back, give up"},
		"a lock is lost meanwhile":               {"begin: ask abc", "lost 1--: ask a", "won: ask b", "won: ask c", "won: refresh", "stale: back, give up"},
	} {
		t.Run("without waiting/"+name, func(t *testing.T) { newScript(t, 3, false).run(lines...) })
	}
}

func TestAll_Until(t *testing.T) {
	s := newScript(t, 2, true)
	s.run("begin: ask ab", "lost 3-: await a", "turn: ask ab", "lost 3-: missed, await a", "turn: ask ab", "lost 3-: missed, await a",
		"turn: ask ab", "lost 3-: missed, await a", "turn: ask ab", "lost -3: again, ask a", "won: await b")
	came := s.clock.now
	const most = 2 * time.Second // a quarter of the TTL
	for _, c := range []struct {
		what    string
		changes lock.Changes
		want    time.Time
	}{
		{"it never changed hands", lock.Changes{}, came.Add(10 * rtt)},
		{"long ago", lock.Changes{At: came.Add(-time.Minute), Between: 10 * rtt}, came.Add(50 * rtt)},
		{"just now", lock.Changes{At: came.Add(time.Second), Between: 10 * rtt}, came.Add(time.Second + 50*rtt)},
		{"seldom", lock.Changes{At: came, Between: time.Minute}, came.Add(most)},
	} {
		require.Equal(t, c.want, s.all.Until(c.changes), c.what)
	}
	s.clock.now = came.Add(time.Second)
	s.run("turn: ask b", "lost 3: missed, await b")
	require.Equal(t, came.Add(10*rtt), s.all.Until(lock.Changes{}), "it keeps the time at which it came")
	s.run("impatient: back, await b")
	require.Zero(t, s.all.Until(lock.Changes{}))
}

func TestAll_TakesNothingInOrderIfItWouldGiveItBackAtOnce(t *testing.T) {
	s := newScript(t, 2, true)
	s.run("begin: ask ab")
	for range 9 {
		step := s.all.Lost([]int{0, 3}, 300*time.Millisecond, false)
		require.Equal(t, lock.Await, step.Do)
		s.run("turn: ask ab")
	}
}

func TestBusy(t *testing.T) {
	d := newDriver(t, 3, steady)
	require.False(t, d.Busy())
	d.do("first 1")
	require.True(t, d.Busy(), "a call tries")
	d.do("won 1")
	require.True(t, d.Busy(), "it has the lock")
	require.Equal(t, quorum.NotEnded, d.lease.At(d.now))
	d.do("unlocked")
	require.False(t, d.Busy())
	d.do("join 2")
	require.True(t, d.Busy(), "a call waits")
}
