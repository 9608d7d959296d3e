//go:build darwin || freebsd || linux

package supervise

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that the front passes on, beside SIGTSTP.
var forwarded = []os.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH,
}

// patience is how long the holder may take to report after the front has ended the command in its place.
const patience = time.Second

// front is the process that was started.
type front struct {
	ctx      context.Context // see Front
	early    <-chan struct{} // its end; nil when that was noticed
	rules    Rules
	job      *Job
	name     string                  // of the first lock
	taken                            // the lock, until the holder has it
	acquired time.Time               // when it got it
	started  func(ago time.Duration) // see Front; nil after the call
	link     *Link
	clock    Clock
	holder   int              // process ID
	others   []process        // children that it had before: the shell's whose process it has become
	ended    *unix.WaitStatus // of the holder; nil while it is not reaped
	tty      *terminal
	signals  chan os.Signal     // forwarded
	stops    chan os.Signal     // SIGTSTP, for a command that is not in the foreground
	resumed  chan os.Signal     // SIGCONT
	resumes  int                // messages about them
	seen     map[os.Signal]bool // that signals has had
}

// Front takes the lock, starts the holder, gives it the lock and tells it what to do. It returns the report when the
// command has ended. The end of ctx is that of the tool's signals that came before Front was there to receive them;
// no command is started then. Unless the command ends within a second, started is called once while it runs, with how
// long ago it was started. It must not block: the deadline has to be watched.
func Front(
	ctx context.Context, setup any, rules Rules, open func() (*Job, error), started func(ago time.Duration),
) (Report, error) {
	text, err := json.Marshal(setup)
	if err != nil {
		return Report{}, err
	}
	f := &front{
		ctx: ctx, early: ctx.Done(), rules: rules, started: started, tty: openTerminal(),
		signals: make(chan os.Signal, 64), stops: make(chan os.Signal, 1), resumed: make(chan os.Signal, 1),
		seen: map[os.Signal]bool{},
	}
	for _, sig := range forwarded {
		if !signal.Ignored(sig) { // as nohup has it
			signal.Notify(f.signals, sig)
		}
	}
	signal.Notify(f.stops, unix.SIGTSTP)
	signal.Notify(f.resumed, unix.SIGCONT)
	signal.Ignore(unix.SIGTTOU) // for terminal.pass
	if by := interruption(ctx); by != 0 {
		return Report{Code: 128 + int(by)}, nil
	}
	report, err := f.run(open, text)
	if f.job != nil {
		f.unlock() // unless the holder has got it
	}
	return report, err
}

// run does what Front does, except for a lock that is left.
func (f *front) run(open func() (*Job, error), setup json.RawMessage) (report Report, err error) {
	for _, step := range []func() (*Report, error){
		func() (*Report, error) { return f.open(open) },
		func() (*Report, error) { return f.acquire(), nil },
		func() (*Report, error) { return f.handOver(setup) },
	} {
		if failed, err := step(); failed != nil || err != nil {
			return *cmp.Or(failed, &report), err
		}
	}
	report = f.watch()
	if at := f.link.board.started(); !at.IsZero() {
		report.Started, report.Ran = true, f.clock.Now().Sub(at)
	}
	return report, nil
}

// start starts the holder. It inherits all files of this process.
func (f *front) start() error {
	if !reap(func(int, unix.WaitStatus) {}) {
		f.others, _ = below(os.Getpid(), nil)
	}
	adoptOrphans()
	path, err := sameProgram()
	if err != nil {
		return err
	}
	link, socket, memory, err := newLink()
	if err != nil {
		return err
	}
	f.link = link
	for _, fd := range []int{socket, memory} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
		defer unix.Close(fd)
	}
	f.holder, err = syscall.ForkExec(path, os.Args, &syscall.ProcAttr{
		Env:   append(os.Environ(), fmt.Sprintf("%s=%d,%d", linkEnv, socket, memory)),
		Files: []uintptr{0, 1, 2},
		Sys:   ownGroup(false),
	})
	return err
}

// watch passes signals on until the holder reports. If it cannot any more, watch ends the command in its place.
func (f *front) watch() Report {
	for {
		wake := time.NewTimer(f.pause(f.rules.tick()))
		select {
		case sig := <-f.signals:
			f.receive(sig)
		case <-f.early:
			f.early = nil
			f.catchUp()
		case sig := <-f.stops:
			f.forward(sig)
		case <-f.resumed:
			f.carryOn()
		case m, ok := <-f.link.messages:
			switch {
			case !ok:
				if by := endedEarly(f.endGroup()); by != 0 {
					return Report{Code: 128 + int(by)}
				}
				text := "the process that held the lock was killed, and with it the command; the lock ends at its TTL"
				if f.link.board.group() == 0 && f.link.board.started().IsZero() {
					text = killedEarly
				}
				return Report{Code: CodeInternal, Text: text}
			case m.Report != nil:
				f.await()
				return *m.Report
			case m.Attached:
				f.detach()
			case m.Stopped != 0 && m.After == f.resumes: // otherwise it has been continued since
				f.stop(m.Stopped)
			}
		case <-wake.C:
		}
		wake.Stop()
		f.reap()
		f.tellStart()
		if reached(f.clock.Now(), f.latest()) {
			return f.takeOver()
		}
	}
}

// tellStart calls started if the command runs.
func (f *front) tellStart() {
	if at := f.link.board.started(); f.started != nil && !at.IsZero() {
		f.started(f.clock.Now().Sub(at))
		f.started = nil
	}
}

// reap reaps children that this process has not started: process 1 of a container gets all orphans in it. It stops at the holder: what
// is left of the command comes behind it, and keeps the number of its group until endGroup has used it.
func (f *front) reap() {
	for f.ended == nil {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case err != nil || pid <= 0:
			return
		case pid == f.holder:
			f.ended = &status
		}
	}
}

// await returns how the holder has ended, when it has.
func (f *front) await() unix.WaitStatus {
	if f.ended == nil {
		status := waitFor(f.holder)
		f.ended = &status
	}
	return *f.ended
}

// latest is when the holder must have ended the command, or renewed the lock; zero means never.
func (f *front) latest() (at time.Time) {
	if f.link == nil || !f.link.board.running() || f.rules.OnLost == OnLostWarn {
		return time.Time{}
	}
	return f.link.board.deadline().Add(-f.rules.Margin() / 2)
}

// pause returns for how long this process may wait before it looks at the deadline again, at most.
func (f *front) pause(most time.Duration) time.Duration {
	if at := f.latest(); !at.IsZero() {
		return min(most, at.Sub(f.clock.Now()))
	}
	return most
}

// takeOver kills the command in the holder's place, which is frozen or too slow.
func (f *front) takeOver() Report {
	f.kill(&group{id: f.link.board.group()})
	for patience := time.After(patience); ; {
		select {
		case m, ok := <-f.link.messages:
			if ok && m.Report == nil {
				continue
			}
		case <-patience:
			if f.ended == nil { // otherwise its number may be another's
				_ = unix.Kill(f.holder, unix.SIGKILL)
			}
		}
		f.endGroup()
		const text = "the lock %q was lost while the command ran: the process that held it did not renew it in time"
		return Report{Code: CodeLost, Lost: true, Text: fmt.Sprintf(text, f.name)}
	}
}

// endedEarly returns the signal that has ended a holder before it catches signals, or 0. It does that before it takes the lock. A
// signal to the whole process group, as from a terminal, may come so early.
func endedEarly(holder unix.WaitStatus) unix.Signal {
	if !holder.Signaled() {
		return 0
	}
	return ends(holder.Signal())
}

// kill kills what is left of the command, and reports whether it has seen nothing of it outside of the group. What descends from the
// command descends from the holder, and from this process when the holder is gone.
func (f *front) kill(g *group) (none bool) {
	g.signal(unix.SIGKILL)
	if f.rules.Descendants == DescendantsIgnore {
		return true
	}
	root := f.holder
	if f.ended != nil {
		root = os.Getpid()
	}
	found, _ := signalBelow(root, g, f.others, unix.SIGKILL)
	return len(found) == 0
}

// endGroup kills what is left of the command, and returns how the holder has ended when nothing is and the holder is gone.
func (f *front) endGroup() (holder unix.WaitStatus) {
	if !f.link.board.running() {
		return f.await()
	}
	g := group{id: f.link.board.group()}
	f.kill(&g)
	holder = f.await() // from now on the command's orphans are this process's children, on Linux
	for pause := time.Millisecond; ; pause = min(2*pause, f.rules.tick()) {
		none := f.kill(&g)
		childless := reap(func(int, unix.WaitStatus) {})
		if g.empty() && (childless || none && len(f.others) > 0 || f.rules.Descendants == DescendantsIgnore) {
			break
		}
		<-time.After(pause)
	}
	f.tty.restore(g.id)
	f.tty.pass(g.id, unix.Getpgrp())
	return holder
}

// stop stops this process because the command has stopped, and tells the holder when it is continued. Without a terminal there is
// no shell that would continue it.
func (f *front) stop(sig unix.Signal) {
	if f.halt(sig) {
		f.carryOn()
	}
}

// halt stops this process, and returns when it is continued. It reports whether there is a terminal, and so somebody
// who continues it.
func (f *front) halt(sig unix.Signal) bool {
	if f.tty == nil {
		return false
	}
	drop(f.resumed) // a SIGCONT from before the stop is void
	needsTTY := sig == unix.SIGTTIN || sig == unix.SIGTTOU
	switch {
	case needsTTY && f.tty.foreground() == unix.Getpgrp(): // by now, and so is the command soon
	case sig == unix.SIGSTOP:
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
		f.awaitResume()
	default:
		stopGroup(f.awaitResume)
	}
	return true
}

// awaitResume returns when this process has been stopped and continued, or soon if it was not stopped because nobody would continue it.
func (f *front) awaitResume() {
	select {
	case <-f.resumed:
	case <-time.After(f.pause(500 * time.Millisecond)):
	}
}

// resume forgets a SIGTSTP from before the SIGCONT, which is void, as in the kernel. Go's runtime may deliver both a
// moment later.
func (f *front) resume() {
	<-time.After(10 * time.Millisecond)
	drop(f.stops)
	drop(f.resumed)
}

// carryOn has the holder continue the command.
func (f *front) carryOn() {
	f.resume()
	f.resumes++
	f.link.send(message{Continue: f.resumes})
}

// receive passes on what signals has had.
func (f *front) receive(sig os.Signal) {
	f.seen[sig] = true
	f.forward(sig)
}

// catchUp passes on the signal that has ended the context, unless signals has had it too.
func (f *front) catchUp() {
	early := interruption(f.ctx)
	if early == 0 {
		return
	}
	signal.Notify(f.signals, early) // as before; the delivery of a signal is over when it returns
	for len(f.signals) > 0 {
		f.receive(<-f.signals)
	}
	if !f.seen[early] {
		f.forward(early)
	}
}

// interruption returns the signal that has ended a context, or 0.
func interruption(ctx context.Context) syscall.Signal {
	var by Interrupted
	if !errors.As(context.Cause(ctx), &by) {
		return 0
	}
	number, _ := by.Signal.(syscall.Signal)
	return number
}

func (f *front) forward(sig os.Signal) { f.link.send(message{Signal: sig.(syscall.Signal)}) }

// drop takes a signal out of a channel if there is one.
func drop(signals <-chan os.Signal) {
	select {
	case <-signals:
	default:
	}
}
