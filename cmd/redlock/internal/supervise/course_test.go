package supervise_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// rules end a command 0.1 s before the deadline.
func rules(onLost supervise.OnLost, killAfter time.Duration) supervise.Rules {
	return supervise.Rules{TTL: 10 * s, OnLost: onLost, KillAfter: killAfter}
}

// act is something that happens to a course. It returns what the course has asked for meanwhile.
type act func(c *supervise.Course) []supervise.Step

// quietly is an act during which the course asks for nothing.
func quietly(do func(c *supervise.Course)) act {
	return func(c *supervise.Course) []supervise.Step { do(c); return nil }
}

func run(until time.Duration) act {
	return func(c *supervise.Course) []supervise.Step { return c.Run(until) }
}

func oversleep(d time.Duration) act { return quietly(func(c *supervise.Course) { c.Oversleep(d) }) }

func end(status int) act { return quietly(func(c *supervise.Course) { c.End(status) }) }

var (
	renew = quietly(func(c *supervise.Course) { c.Renew(10 * s) })
	lose  = quietly((*supervise.Course).Lose)
	kill  = quietly((*supervise.Course).Kill)
)

func TestCourse_EndsTheCommandInTime(t *testing.T) {
	type acts = []act
	type steps = []supervise.Step
	const onTerm, onKill, onWarn = supervise.OnLostTerm, supervise.OnLostKill, supervise.OnLostWarn
	inTime := steps{{7900 * ms, "TERM"}, {9900 * ms, "KILL"}}
	for name, test := range map[string]struct {
		onLost    supervise.OnLost
		killAfter time.Duration
		happens   acts
		want      steps
		code      int
	}{
		"not renewed: TERM, and KILL before the deadline": {onTerm, 2 * s, acts{run(20 * s)}, inTime, 79},
		"not renewed, without time to end":                {onTerm, 0, acts{run(20 * s)}, steps{{9900 * ms, "KILL"}}, 79},
		"not renewed, kill":                               {onKill, 2 * s, acts{run(20 * s)}, steps{{9900 * ms, "KILL"}}, 79},
		"not renewed, warn":                               {onWarn, 2 * s, acts{run(20 * s)}, nil, 79},
		"renewed":                                         {onTerm, 2 * s, acts{run(7 * s), renew, run(14 * s)}, nil, 0},
		"a renewal after TERM rescues nothing":            {onTerm, 2 * s, acts{run(8 * s), renew, run(30 * s)}, inTime, 79},
		"not renewed, and noticed late": {
			onTerm, 2 * s, acts{oversleep(9 * s), run(30 * s)}, steps{{9 * s, "TERM"}, {9900 * ms, "KILL"}}, 79,
		},
		"the machine was suspended beyond the deadline": {onTerm, 2 * s, acts{oversleep(20 * s), run(30 * s)}, steps{{20 * s, "KILL"}}, 79},
		"lost early: KILL after its time": {
			onTerm, 2 * s, acts{run(3 * s), lose, run(30 * s)}, steps{{3 * s, "TERM"}, {5 * s, "KILL"}}, 79,
		},
		"lost early, but it was noticed late": {
			onTerm, 2 * s, acts{oversleep(9 * s), lose, run(30 * s)}, steps{{9 * s, "TERM"}, {9900 * ms, "KILL"}}, 79,
		},
		"lost early, kill": {onKill, 2 * s, acts{run(3 * s), lose, run(30 * s)}, steps{{3 * s, "KILL"}}, 79},
		"lost early, warn": {onWarn, 2 * s, acts{lose, run(30 * s)}, nil, 79},
		"the command ends and leaves processes": {
			onWarn, 2 * s, acts{run(1 * s), end(3), run(9 * s)}, steps{{1 * s, "TERM"}, {3 * s, "KILL"}}, 3,
		},
		"the command ends and leaves processes that get no time": {
			onTerm, 0, acts{run(1 * s), end(3), run(9 * s)}, steps{{1 * s, "KILL"}}, 3,
		},
		"the command ends after TERM: what it leaves is killed as was planned": {
			onTerm, 2 * s, acts{run(8 * s), end(143), run(30 * s)}, inTime, 79,
		},
		"the lock is lost while the command's processes end": {
			onTerm, 2 * s, acts{run(7 * s), end(0), run(30 * s)}, steps{{7 * s, "TERM"}, {9 * s, "KILL"}}, 79,
		},
		"the front is gone": {onWarn, 2 * s, acts{run(1 * s), kill, run(9 * s)}, steps{{1 * s, "KILL"}}, 0},
		"the front is gone after TERM": {
			onTerm, 2 * s, acts{run(8 * s), kill, run(30 * s)}, steps{{7900 * ms, "TERM"}, {8 * s, "KILL"}}, 79,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := supervise.NewCourse(rules(test.onLost, test.killAfter), 10*s)
			var got steps
			for _, happens := range test.happens {
				got = append(got, happens(c)...)
			}
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.code, c.Code())
			assert.Equal(t, test.code == 79, c.Lost() != "")
		})
	}
}

func TestCourse_CountsOnlyLaterDeadlines(t *testing.T) {
	c := supervise.NewCourse(rules(supervise.OnLostTerm, s), 10*s)
	assert.False(t, c.Renew(10*s))
	assert.False(t, c.Renew(9*s))
	assert.True(t, c.Renew(11*s))
	c.Lose()
	assert.False(t, c.Renew(12*s))
}

// They get both signals, although the group has had them.
func TestCourse_EndsWhatHasLeftTheGroupWhenItIsAsked(t *testing.T) {
	type steps = []supervise.Step
	waits := rules(supervise.OnLostTerm, s)
	waits.Descendants = supervise.DescendantsWait
	for name, test := range map[string]struct {
		do   act
		want steps
	}{
		"a signal":                         {quietly((*supervise.Course).EndAll), steps{{3 * s, "TERM"}, {4 * s, "KILL"}}},
		"the lock is lost":                 {lose, steps{{3 * s, "TERM"}, {4 * s, "KILL"}}},
		"the front is gone":                {kill, steps{{3 * s, "KILL"}}},
		"nothing":                          {run(3 * s), nil},
		"a second signal while it ends":    {quietly(func(c *supervise.Course) { c.EndAll(); c.EndAll() }), steps{{3 * s, "TERM"}, {4 * s, "KILL"}}},
		"a lost lock while they are ended": {quietly(func(c *supervise.Course) { c.EndAll(); c.Lose() }), steps{{3 * s, "TERM"}, {4 * s, "KILL"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := supervise.NewCourse(waits, 100*s)
			c.End(0)
			assert.Equal(t, steps{{0, "TERM"}, {s, "KILL"}}, c.Run(3*s), "the group")
			test.do(c)
			assert.Equal(t, test.want, c.Run(9*s))
		})
	}
	for _, mode := range []supervise.Descendants{supervise.DescendantsKill, supervise.DescendantsIgnore} {
		once := waits
		once.Descendants = mode
		c := supervise.NewCourse(once, 100*s)
		c.End(0)
		assert.Len(t, c.Run(3*s), 2)
		c.EndAll()
		assert.Empty(t, c.Run(9*s), "all had them")
	}
}

func TestRules_LeaveAMarginBeforeTheDeadline(t *testing.T) {
	assert.Equal(t, 50*ms, supervise.Rules{TTL: s}.Margin())
	assert.Equal(t, 300*ms, supervise.Rules{TTL: 30 * s}.Margin())
}

// A terminal that is stopped by Ctrl-S, or a pager that nobody scrolls, must not hold up what ends the command.
func TestEvents_DoNotWaitForTheirReader(t *testing.T) {
	unread, w := io.Pipe()
	events := supervise.NewEvents(w, "job", true, false)
	for range 1000 {
		events.Exit(supervise.Report{Code: 1})
	}
	events.Close()
	assert.NoError(t, unread.Close())
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
