// Package supervise runs a command under a lock, for redlock run.
//
// Two processes do it, both of the same program. The front is the one that was started. It waits for the lock alone. With the lock
// it starts the holder and gives it the lock. From then on it passes signals on, stops and continues with the command, and exits
// with its code. The holder, in a process group of its own, has the lock and renews it, starts the command in a third process
// group and ends that group before the lock is over. Each of the two ends the group if the other is gone; the front also does if
// the lock's deadline passes because the holder is frozen.
//
// The command's process waits until its group is in the shared memory; until then it is a stage, which is this program too.
//
//	front   <- socket: messages ->   holder   -> starts, signals, reaps ->   the command's group
//	        <- shared memory: the deadline and the group
//
// docs/adr/0011-run-is-two-processes.md says why.
package supervise

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// OnLost says what happens to the command if the lock is lost.
type OnLost string

// The modes. Whatever the mode, the exit code is [CodeLost] then.
const (
	OnLostTerm OnLost = "term" // TERM, and KILL before the lock's deadline
	OnLostKill OnLost = "kill" // KILL at once
	OnLostWarn OnLost = "warn" // a warning; the command goes on
)

// Descendants says what happens to processes that have left the command's group, if they outlive the command. If the lock is lost, or
// one of the tool's processes is killed, they are ended like the group, except with [DescendantsIgnore].
type Descendants string

// The modes. Only Linux can find such processes.
const (
	DescendantsWait   Descendants = "wait"   // the lock is kept until they have ended
	DescendantsKill   Descendants = "kill"   // they are ended, like what is left of the group
	DescendantsIgnore Descendants = "ignore" // the lock does not care
)

// The exit codes that are not the command's own.
const (
	CodeInternal  = 70  // redlock itself has failed
	CodeLost      = 79  // the lock was lost while the command ran
	CodeCannotRun = 126 // the program cannot be run, as a shell has it
	CodeNotFound  = 127 // there is no such program
)

// ErrWithin means that the lock is held by the redlock run whose command this one is part of.
var ErrWithin = errors.New("held by the \"redlock run\" around this one ($REDLOCK_TOKEN), which would wait for this one in turn")

// Interrupted is the cause of a context's end if that is a signal.
type Interrupted struct{ Signal os.Signal }

func (i Interrupted) Error() string { return i.Signal.String() }

// Report is how a run ended, for the exit of the tool.
type Report struct {
	Code int
	Text string // what to tell the user; "" means nothing

	Taken   bool          `json:",omitempty"` // another holds the lock
	Lost    bool          `json:",omitempty"` // the lock was lost
	Started bool          `json:",omitempty"` // the command was started, as the front knows
	Ran     time.Duration `json:",omitempty"` // from then on, until nothing was left of it and the lock was released
}

// Rules say when a command is ended.
type Rules struct {
	TTL       time.Duration
	OnLost    OnLost
	KillAfter time.Duration // from TERM to KILL; 0 means no TERM

	Descendants Descendants
}

// Margin is how long before the lock's deadline the command must have been killed: time for the signal to take effect.
func (r Rules) Margin() time.Duration { return max(50*time.Millisecond, r.TTL/100) }

// tick is how long one of the processes waits at most before it looks at the clock: timers do not count suspend.
func (r Rules) tick() time.Duration { return min(time.Second, r.TTL/10) }

// Grace is that of the lock: it is over for the command so long before its deadline.
func (r Rules) Grace() time.Duration {
	switch r.OnLost {
	case OnLostTerm:
		return r.Margin() + r.KillAfter
	case OnLostKill:
		return r.Margin()
	}
	return 0
}

// action is what is to be done to the process group of the command.
type action int

const (
	doNothing action = iota
	doTerm
	doKill
)

// course decides how a command is ended. It makes no system calls and reads no clock. Its instants are of one clock.
type course struct {
	rules    Rules
	deadline time.Time // of the lock, as far as it is known
	latest   time.Time // that the deadline may be, by --max-hold; zero means any

	lost   string // why the lock is lost, or will be; "" while it is not. A renewal does not change it any more
	status int    // exit code of the command
	ended  bool   // the command has ended; others of its group may be left
	all    bool   // signals are for all that is left of the command, and not only for its group

	termAt, killAt time.Time // when the signals are due; zero means never
	termed, killed bool      // they were sent
}

func newCourse(rules Rules) course {
	return course{rules: rules, all: rules.Descendants != DescendantsWait}
}

// reach makes further signals be for all that is left of the command. What was sent to the group alone does not count.
func (c *course) reach() {
	if !c.all {
		c.all, c.termed, c.killed = true, false, false
		c.termAt, c.killAt = time.Time{}, time.Time{}
	}
}

// leastRenewal is how much later a deadline is after a renewal at least. What is read of it may be a little too early.
const leastRenewal = 50 * time.Millisecond

// renewed takes the lock's new deadline, and reports whether it is one that counts.
func (c *course) renewed(deadline time.Time) bool {
	if c.lost != "" || deadline.Sub(c.deadline) < leastRenewal {
		return false
	}
	c.deadline = deadline
	return true
}

// expire ends the command by the rules for a lock that was not renewed until its grace began. nodes are the lines about
// the nodes that failed.
func (c *course) expire(now time.Time, nodes string) { c.lose(now, c.expiring(now, nodes)) }

// lose ends the command by the rules for a lock that is known to be lost. Only the first call has an effect.
func (c *course) lose(now time.Time, reason string) {
	if c.lost != "" {
		return
	}
	c.lost = reason
	switch latest := c.deadline.Add(-c.rules.Margin()); c.rules.OnLost {
	case OnLostTerm:
		c.endAll(now)
		c.killAt = earlier(c.killAt, latest)
	case OnLostKill:
		c.kill(now)
	}
}

// leaderEnded takes the end of the command itself. What is left of its group gets the same time to end as after a loss, and what has
// left the group too if somebody has asked the command to end.
func (c *course) leaderEnded(now time.Time, status int, asked bool) {
	c.ended, c.status = true, status
	if asked {
		c.reach()
	}
	c.end(now)
}

// endAll has TERM sent to all at once, and KILL later.
func (c *course) endAll(now time.Time) {
	c.reach()
	c.end(now)
}

// end has TERM sent at once and KILL later.
func (c *course) end(now time.Time) {
	c.termAt = earlier(c.termAt, now)
	c.killAt = earlier(c.killAt, now.Add(c.rules.KillAfter))
}

// kill has KILL sent to all at once.
func (c *course) kill(now time.Time) {
	c.reach()
	c.killAt = earlier(c.killAt, now)
}

// due returns what is to be done now, each action once.
func (c *course) due(now time.Time) action {
	switch {
	case !c.killed && reached(now, c.killAt):
		c.killed, c.termed = true, true
		return doKill
	case !c.termed && reached(now, c.termAt):
		c.termed = true
		return doTerm
	}
	return doNothing
}

// expiring says why so little validity is left.
func (c *course) expiring(now time.Time, nodes string) string {
	if !c.latest.IsZero() && c.latest.Sub(c.deadline) < c.rules.TTL/10 {
		return "--max-hold is over"
	}
	left := max(0, c.deadline.Sub(now)).Round(time.Millisecond)
	return fmt.Sprintf("it could not be renewed: too few nodes confirmed it, and %s of validity is left%s", left, nodes)
}

// next returns when due has something to do; zero means never.
func (c *course) next() (at time.Time) {
	if !c.termed {
		at = earlier(at, c.termAt)
	}
	if !c.killed {
		at = earlier(at, c.killAt)
	}
	return at
}

// code returns the exit code.
func (c *course) code() int {
	if c.lost != "" {
		return CodeLost
	}
	return c.status
}

// earlier returns the earlier of two instants, of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func reached(now, at time.Time) bool { return !at.IsZero() && !now.Before(at) }
