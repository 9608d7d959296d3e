//go:build darwin || freebsd || linux

package supervise

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Message is what the two processes tell each other.
type Message = message

// NewLinks returns the two ends of a link.
func NewLinks(t *testing.T) (front, holder *Link) {
	t.Helper()
	front, socket, memory, err := newLink()
	if err != nil {
		t.Fatal(err)
	}
	holder, err = open(socket, front.board)
	_ = unix.Close(memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = front.conn.Close(), holder.conn.Close()
		for _, l := range []*Link{front, holder} {
			for range l.messages {
			}
			<-l.written
		}
	})
	return front, holder
}

// Send has a message sent.
func (l *Link) Send(m Message) { l.send(m) }

// Messages returns those of the other end.
func (l *Link) Messages() <-chan Message { return l.messages }

// Group is a process group.
type Group = group

// NewGroup returns the group of a number.
func NewGroup(id int) *Group { return &group{id: id, leader: true} }

// Signal sends a signal to all processes of the group, and to its leader.
func (g *Group) Signal(sig unix.Signal) {
	g.signal(sig)
	g.signalLeader(sig)
}

// Empty reports whether no process of the group is left.
func (g *Group) Empty() bool { return g.empty() }

// NewFront returns the front of a holder.
func NewFront(holder int) *front { return &front{holder: holder} }

// Reap reaps children that have ended, and reports whether the holder is one.
func (f *front) Reap() bool {
	f.reap()
	return f.ended != nil
}

// Await returns how the holder has ended, when it has.
func (f *front) Await() unix.WaitStatus { return f.await() }
