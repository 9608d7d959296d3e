//go:build darwin || freebsd || linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// Job is what the two processes do. Each has one of its own.
type Job struct {
	Rules
	Locker  *redlock.Locker      // on a [Clock]
	Close   func()               // closes it
	Names   []string             // of the locks, which are taken together; what is said is about the first
	Options []redlock.LockOption // with which they are taken

	NonBlock bool          // do not wait for the lock
	Wait     time.Duration // how long to wait for it; 0 means for ever
	AtLeast  time.Duration // how long the lock stays at least
	MaxHold  time.Duration // how long it is held at most; 0 means for ever

	Path    string // of the program
	Args    []string
	Secrets []string // variables that the program does not get

	Failed   func(error) Report // makes the report if there is no lock
	Observer *Observer          // of Locker
	Events   *Events
}

// held is a [redlock.Lock], or the [redlock.Locks] of several names.
type held interface {
	Done() <-chan struct{}
	Err() error
	Remaining() time.Duration
	Extend(ctx context.Context, ttl time.Duration) error
	Unlock(ctx context.Context) error
}

// holder holds the lock while the command runs.
type holder struct {
	*Job
	link     *Link
	clock    Clock
	lock     held
	each     []*redlock.Lock // of the locks, in the order of Names
	acquired time.Time
	lostName string // of the lock that was lost first; "" while none is

	group    group
	course   course
	children chan os.Signal

	tellAt    time.Time     // when it is said what has left the group; zero means never
	nextKill  time.Time     // when what has been started meanwhile is killed too
	killPause time.Duration // to the one after it

	frontPID, frontGroup int
	toldFront            bool                 // that the command has stopped, and it has not continued it yet
	resumes              int                  // how often it has continued the job
	passed               map[unix.Signal]bool // on to the command's group

	tty     *terminal
	wantTTY bool // the command is in the foreground whenever the job is
}

// Hold takes over the lock, runs the command and releases the lock. The caller ends the process with what Hold returns.
func Hold(link *Link, job *Job) Report {
	runtime.LockOSThread() // and never unlocked: on Linux the kernel kills the command when this thread ends
	h := &holder{
		Job: job, link: link, course: newCourse(job.Rules), tty: openTerminal(),
		frontPID: os.Getppid(), children: make(chan os.Signal, 1), passed: map[unix.Signal]bool{},
		killPause: 10 * time.Millisecond,
	}
	h.frontGroup, _ = unix.Getpgid(h.frontPID)
	disregardSignals()
	signal.Notify(h.children, unix.SIGCHLD)
	adoptOrphans()

	report := h.run()
	if h.link.isGone() { // otherwise the front says it, also if this process is killed by then
		h.Events.Exit(report)
	}
	if h.toldFront {
		h.wakeFront()
	}
	return report
}

func (h *holder) run() Report {
	if failed := h.attach(); failed != nil {
		return *failed
	}
	checked := make(chan struct{})
	go func() {
		defer close(checked)
		h.sayTwins()
	}()
	defer func() { <-checked }()
	if failed := h.start(); failed != nil {
		return *failed
	}
	h.watch()
	return h.release()
}

// sayTwins says which nodes are the same server as another. A node that hangs has a second, because a command that ends before
// that waits for this.
func (h *holder) sayTwins() {
	state, _ := client.Look(context.Background(), h.Locker, h.Names[0])
	if state == nil {
		return
	}
	for _, n := range state.Nodes {
		if errors.Is(n.Err, nodeerr.ErrSameServer) {
			why := n.Addr + ": " + display.Error(n.Err)
			h.Events.warn(event{Event: "same_server", Error: why}, "warning: --nodes: "+why+": together they have one vote")
		}
	}
}

// watch returns when nothing is left of the command.
func (h *holder) watch() {
	over, lost := h.lock.Done(), ""
	for !h.reap() {
		now := h.look()
		switch h.course.due(now) {
		case doTerm:
			h.Events.say(event{Event: "term"}, "sent TERM to the command")
			h.term()
		case doKill:
			h.Events.say(event{Event: "kill"}, "sent KILL to the command")
			h.kill()
		default:
			h.killAgain(now)
		}
		if reached(now, h.tellAt) {
			h.sayOutside()
		}
		if lost == "" && h.course.lost != "" {
			lost = h.course.lost
			say := h.Events.say
			if h.OnLost == OnLostWarn {
				say = h.Events.warn
			}
			h.lostName = h.nameOver()
			say(event{Event: "lost", Lock: h.among(h.lostName), Error: lost}, fmt.Sprintf("the lock %q is lost: %s", h.lostName, lost))
		}
		wake := time.NewTimer(h.pause(now))
		select {
		case m, ok := <-h.link.messages:
			h.heed(m, ok)
		case <-over:
			over = nil
		case <-h.children:
		case <-wake.C:
		}
		wake.Stop()
	}
}

// look finds out how the lock stands.
func (h *holder) look() (now time.Time) {
	now = h.clock.Now()
	deadline, err := now.Add(h.validity()), h.lock.Err()
	switch {
	case errors.Is(err, redlock.ErrExpired):
		h.course.expire(now, nodesOf(err))
	case err != nil:
		h.course.lose(now, h.why(err))
	case h.course.renewed(deadline):
		h.link.board.setDeadline(h.course.deadline)
		valid := deadline.Sub(now).Truncate(time.Millisecond)
		h.Events.say(event{Event: "renewed", Validity: milliseconds(valid)}, fmt.Sprintf("renewed the lock, valid for %s", valid))
	}
	return now
}

// nameOver returns the name of the first lock that is over.
func (h *holder) nameOver() string {
	for i, lock := range h.each {
		if lock.Err() != nil {
			return h.Names[i]
		}
	}
	return h.Names[0]
}

// nameIn returns the name of the lock that an error of all is about.
func (j *Job) nameIn(err error) string {
	if of := new(redlock.LockError); errors.As(err, &of) && of.Name != "" {
		return of.Name
	}
	return j.Names[0]
}

// among returns the name of a lock for an event if there are several.
func (j *Job) among(name string) string {
	if len(j.Names) == 1 {
		return ""
	}
	return name
}

// validity returns for how much longer nobody else can have the lock, if it is held.
func (h *holder) validity() time.Duration { return h.lock.Remaining() + h.Grace() }

// gone begins the reason why a lock was lost that has not expired.
const gone = "the nodes do not hold it any more: "

// why returns the reason why a lock was lost that has not expired. A server that kept its connection has not restarted.
func (j *Job) why(err error) string {
	broken := j.Observer.disconnected()
	if len(broken) == 0 {
		return gone + "it was deleted or evicted, as no node was disconnected meanwhile" + nodesOf(err)
	}
	return fmt.Sprintf("%sit was deleted, or servers restarted, as these were disconnected meanwhile: %s%s",
		gone, strings.Join(broken, ", "), nodesOf(err))
}

// nodesOf returns a line for each node that failed in the last extension of a lock, or nothing.
func nodesOf(err error) string {
	if last := (*redlock.QuorumError)(nil); errors.As(err, &last) {
		return display.Nodes(last)
	}
	return ""
}

// pause returns for how long watch may wait.
func (h *holder) pause(now time.Time) time.Duration {
	wait := h.tick()
	at := earlier(h.course.next(), h.tellAt)
	if h.course.killed {
		at = earlier(at, h.nextKill)
	}
	if !at.IsZero() {
		wait = min(wait, at.Sub(now))
	}
	if h.course.ended && !h.group.gone {
		wait = min(wait, 10*time.Millisecond) // a process whose parent is not of the group ends unnoticed
	}
	return wait
}

// reap records children that have changed, and reports whether nothing is left of the command.
func (h *holder) reap() (all bool) {
	childless := reap(func(pid int, status unix.WaitStatus) {
		switch {
		case pid != h.group.id || !h.group.leader: // an orphan
		case status.Stopped():
			h.stopped(status.StopSignal())
		case status.Continued():
			if h.toldFront { // somebody else has continued it
				h.wakeFront()
			}
		default:
			h.leaderEnded(status)
		}
	})
	if !h.course.ended || !h.group.empty() {
		return false
	}
	h.leaveGroup()
	if !childless && h.Descendants != DescendantsIgnore {
		return false
	}
	h.link.board.setOutside(false)
	return true
}

// leaderEnded takes the end of the command itself.
func (h *holder) leaderEnded(status unix.WaitStatus) {
	now := h.clock.Now()
	h.group.leader = false
	if status.Signaled() {
		h.tty.restore(h.group.id)
	}
	asked := status.Signaled() && asks(status.Signal())
	for sig := range h.passed {
		asked = asked || asks(sig)
	}
	h.course.leaderEnded(now, codeOf(status), asked)
	h.sayEnded(status)
	h.sayLeft(status)
	switch {
	case h.outside():
		h.sayOutside()
	case h.Descendants == DescendantsWait:
		h.tellAt = now.Add(noticeAfter) // what ends with the command needs a moment
	}
}

// asks reports whether a signal asks the command to end.
func asks(sig unix.Signal) bool { return ends(sig) != 0 && sig != unix.SIGTSTP }

// heed does what the front says. ok is false if the front is gone.
func (h *holder) heed(m message, ok bool) {
	switch {
	case !ok:
		h.link.messages = nil
		h.course.kill(h.clock.Now())
	case m.Continue > 0:
		h.resumes, h.toldFront = m.Continue, false
		if h.wantTTY && !h.group.gone {
			h.tty.pass(h.frontGroup, h.group.id)
		}
		h.group.signal(unix.SIGCONT)
	default:
		name := unix.SignalName(m.Signal)
		h.Events.say(event{Event: "signal", Signal: name}, fmt.Sprintf("passed %s on to the command", name))
		h.forward(m.Signal)
	}
}

// forward sends a signal to the command: the user's own signals to it alone, the others to its group, as a terminal does. If only what
// has left the group is left, the signal ends that, or stops the front.
func (h *holder) forward(sig unix.Signal) {
	switch {
	case h.course.ended && asks(sig):
		h.course.endAll(h.clock.Now())
	case h.group.gone && sig == unix.SIGTSTP:
		h.stopped(sig)
		return
	}
	h.passed[sig] = sig != unix.SIGUSR1 && sig != unix.SIGUSR2
	switch {
	case !h.passed[sig]:
		h.group.signalLeader(sig)
	case sig == unix.SIGTERM, sig == unix.SIGHUP:
		h.group.signal(sig)
		h.group.signal(unix.SIGCONT) // so that one that is stopped can act on it
	default:
		h.group.signal(sig)
	}
}

// stopped acts on a stop of the command. The front stops too, so that the shell sees it, except if the command has stopped
// because it needs the terminal and the job is in the foreground.
func (h *holder) stopped(sig unix.Signal) {
	if h.tty != nil && (sig == unix.SIGTTIN || sig == unix.SIGTTOU) {
		h.tty.pass(h.frontGroup, h.group.id)
		h.wantTTY = true
		if h.tty.foreground() == h.group.id {
			h.group.signal(unix.SIGCONT)
			return
		}
	}
	h.toldFront = true
	h.link.send(message{Stopped: sig, After: h.resumes})
}

// wakeFront continues the front, which has stopped itself.
func (h *holder) wakeFront() {
	h.toldFront = false
	if os.Getppid() == h.frontPID {
		_ = unix.Kill(h.frontPID, unix.SIGCONT)
	}
}

// release lets go of the lock after the command.
func (h *holder) release() Report {
	ctx, cancel := context.WithTimeout(context.Background(), h.TTL)
	defer cancel()
	held := h.clock.Now().Sub(h.acquired)
	switch {
	case h.course.lost == "" && held < h.AtLeast:
		h.keep(ctx, h.AtLeast-held)
	default:
		switch err := h.lock.Unlock(ctx); {
		case h.course.lost != "": // said
		case errors.Is(err, redlock.ErrNotHeld):
			h.lostName = h.nameIn(err)
			h.course.lose(h.clock.Now(), h.why(err))
		case err != nil:
			why, name := display.Error(err), h.nameIn(err)
			h.Events.warn(event{Event: "not_released", Lock: h.among(name), Error: why},
				fmt.Sprintf("the lock %q could not be released and ends at its TTL: %s", name, why))
		default:
			h.Events.say(event{Event: "released"}, "released the lock")
		}
	}
	report := Report{Code: h.course.code(), Lost: h.course.lost != ""}
	if report.Lost {
		report.Text = fmt.Sprintf("the lock %q was lost while the command ran: %s", h.lostName, h.course.lost)
	}
	return report
}

// keep leaves the lock to end by itself, in rest or later.
func (h *holder) keep(ctx context.Context, rest time.Duration) {
	var err error
	if h.validity() < rest {
		err = h.lock.Extend(ctx, max(rest, 2*h.Grace()))
	}
	left := max(rest, h.validity())
	for _, lock := range h.each {
		if _, detached := lock.Detach(ctx); err == nil {
			err = detached
		}
	}
	if err != nil {
		why, name := display.Error(err), h.nameIn(err)
		h.Events.warn(event{Event: "not_kept", Lock: h.among(name), Error: why}, fmt.Sprintf("the lock %q may end before --at-least: %s", name, why))
		return
	}
	left = left.Truncate(time.Millisecond)
	h.Events.say(event{Event: "kept", Validity: milliseconds(left)}, fmt.Sprintf("the lock stays for %s", left))
}
