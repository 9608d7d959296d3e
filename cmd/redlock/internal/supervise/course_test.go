package supervise_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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

func TestCourse_EndsTheCommandInTime(t *testing.T) {
	const term, kill, warn = supervise.OnLostTerm, supervise.OnLostKill, supervise.OnLostWarn
	for name, test := range map[string]struct {
		rules supervise.Rules
		do    func(c *supervise.Course) []supervise.Step
		want  []supervise.Step
		code  int
	}{
		"not renewed: TERM, and KILL before the deadline": {
			rules(term, 2*s), func(c *supervise.Course) []supervise.Step { return c.Run(20 * s) },
			[]supervise.Step{{7900 * ms, "TERM"}, {9900 * ms, "KILL"}}, 79,
		},
		"not renewed, without time to end": {
			rules(term, 0), func(c *supervise.Course) []supervise.Step { return c.Run(20 * s) },
			[]supervise.Step{{9900 * ms, "KILL"}}, 79,
		},
		"not renewed, kill": {
			rules(kill, 2*s), func(c *supervise.Course) []supervise.Step { return c.Run(20 * s) },
			[]supervise.Step{{9900 * ms, "KILL"}}, 79,
		},
		"not renewed, warn": {
			rules(warn, 2*s), func(c *supervise.Course) []supervise.Step { return c.Run(20 * s) },
			nil, 79,
		},
		"renewed": {
			rules(term, 2*s), func(c *supervise.Course) []supervise.Step {
				steps := c.Run(7 * s)
				c.Renew(10 * s)
				return append(steps, c.Run(14*s)...)
			}, nil, 0,
		},
		"a renewal after TERM rescues nothing": {
			rules(term, 2*s), func(c *supervise.Course) []supervise.Step {
				steps := c.Run(8 * s)
				c.Renew(10 * s)
				return append(steps, c.Run(30*s)...)
			},
			[]supervise.Step{{7900 * ms, "TERM"}, {9900 * ms, "KILL"}}, 79,
		},
		"lost early: KILL after its time": {
			rules(term, 2*s), func(c *supervise.Course) []supervise.Step {
				steps := c.Run(3 * s)
				c.Lose()
				return append(steps, c.Run(30*s)...)
			},
			[]supervise.Step{{3 * s, "TERM"}, {5 * s, "KILL"}}, 79,
		},
		"not renewed, and noticed late": {
			rules(term, 2*s), func(c *supervise.Course) []supervise.Step {
				c.Oversleep(9 * s)
				return c.Run(30 * s)
			},
			[]supervise.Step{{9 * s, "TERM"}, {9900 * ms, "KILL"}}, 79,
		},
		"the machine was suspended beyond the deadline": {
			rules(term, 2*s), func(c *supervise.Course) []supervise.Step {
				c.Oversleep(20 * s)
				return c.Run(30 * s)
			},
			[]supervise.Step{{20 * s, "KILL"}}, 79,
		},
		"lost early, but it was noticed late": {
			rules(term, 2*s), func(c *supervise.Course) []supervise.Step {
				c.Oversleep(9 * s)
				c.Lose()
				return c.Run(30 * s)
			},
			[]supervise.Step{{9 * s, "TERM"}, {9900 * ms, "KILL"}}, 79,
		},
		"lost early, kill": {
			rules(kill, 2*s), func(c *supervise.Course) []supervise.Step {
				c.Run(3 * s)
				c.Lose()
				return c.Run(30 * s)
			},
			[]supervise.Step{{3 * s, "KILL"}}, 79,
		},
		"lost early, warn": {
			rules(warn, 2*s), func(c *supervise.Course) []supervise.Step {
				c.Lose()
				return c.Run(30 * s)
			}, nil, 79,
		},
		"the command ends and leaves processes": {
			rules(warn, 2*s), func(c *supervise.Course) []supervise.Step {
				c.Run(1 * s)
				c.End(3)
				return c.Run(9 * s)
			},
			[]supervise.Step{{1 * s, "TERM"}, {3 * s, "KILL"}}, 3,
		},
		"the command ends and leaves processes that get no time": {
			rules(term, 0), func(c *supervise.Course) []supervise.Step {
				c.Run(1 * s)
				c.End(3)
				return c.Run(9 * s)
			},
			[]supervise.Step{{1 * s, "KILL"}}, 3,
		},
		"the command ends after TERM: what it leaves is killed as was planned": {
			rules(term, 2*s), func(c *supervise.Course) []supervise.Step {
				steps := c.Run(8 * s)
				c.End(143)
				return append(steps, c.Run(30*s)...)
			},
			[]supervise.Step{{7900 * ms, "TERM"}, {9900 * ms, "KILL"}}, 79,
		},
		"the lock is lost while the command's processes end": {
			rules(term, 2*s), func(c *supervise.Course) []supervise.Step {
				c.Run(7 * s)
				c.End(0)
				return c.Run(30 * s)
			},
			[]supervise.Step{{7 * s, "TERM"}, {9 * s, "KILL"}}, 79,
		},
		"the front is gone": {
			rules(warn, 2*s), func(c *supervise.Course) []supervise.Step {
				c.Run(1 * s)
				c.Kill()
				return c.Run(9 * s)
			},
			[]supervise.Step{{1 * s, "KILL"}}, 0,
		},
		"the front is gone after TERM": {
			rules(term, 2*s), func(c *supervise.Course) []supervise.Step {
				c.Run(8 * s)
				c.Kill()
				return c.Run(30 * s)
			},
			[]supervise.Step{{8 * s, "KILL"}}, 79,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := supervise.NewCourse(test.rules, 10*s)
			assert.Equal(t, test.want, test.do(c))
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

func TestRules_LeaveAMarginBeforeTheDeadline(t *testing.T) {
	assert.Equal(t, 50*ms, supervise.Rules{TTL: s}.Margin())
	assert.Equal(t, 300*ms, supervise.Rules{TTL: 30 * s}.Margin())
}
