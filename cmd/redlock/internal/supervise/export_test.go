package supervise

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/clocktest"
)

// Course is a course on a clock that a test moves.
type Course struct {
	clock  *clocktest.Fake
	start  time.Time
	course course
}

// NewCourse begins a course with a lock that is valid for some time.
func NewCourse(rules Rules, validity time.Duration) *Course {
	clock := clocktest.New()
	c := &Course{clock, clock.Now(), newCourse(rules)}
	c.Renew(validity)
	return c
}

// Renew gives the lock a validity from now on.
func (c *Course) Renew(validity time.Duration) bool {
	return c.course.renewed(c.clock.Now().Add(validity))
}

// end is when the lock is over for the command unless it is renewed.
func (c *Course) end() time.Time { return c.course.deadline.Add(-c.course.rules.Grace()) }

// expire records that, as the holder does.
func (c *Course) expire() {
	if now := c.clock.Now(); !now.Before(c.end()) {
		c.course.expire(now, "")
	}
}

func (c *Course) Lose()          { c.course.lose(c.clock.Now(), "lock is lost") }
func (c *Course) End(status int) { c.course.leaderEnded(c.clock.Now(), status, false) }
func (c *Course) EndAll()        { c.course.endAll(c.clock.Now()) }
func (c *Course) Kill()          { c.course.kill(c.clock.Now()) }
func (c *Course) Code() int      { return c.course.code() }
func (c *Course) Lost() string   { return c.course.lost }

// Oversleep moves the clock and does nothing that is due.
func (c *Course) Oversleep(d time.Duration) { c.clock.Jump(d) }

// Step is an action and when it is due.
type Step struct {
	At time.Duration // since the beginning
	Do string
}

// Run moves the clock from one instant with something to do to the next until a time since the beginning.
func (c *Course) Run(until time.Duration) (steps []Step) {
	names := map[action]string{doTerm: "TERM", doKill: "KILL"}
	for {
		c.expire()
		for act := c.course.due(c.clock.Now()); act != doNothing; act = c.course.due(c.clock.Now()) {
			steps = append(steps, Step{c.clock.Now().Sub(c.start), names[act]})
		}
		at := c.course.next()
		if c.course.lost == "" {
			at = earlier(at, c.end())
		}
		if at.IsZero() || at.Sub(c.start) > until {
			c.clock.Advance(until - c.clock.Now().Sub(c.start))
			return steps
		}
		if !at.After(c.clock.Now()) {
			panic("next is not in the future, although nothing is due")
		}
		c.clock.Advance(at.Sub(c.clock.Now()))
	}
}
