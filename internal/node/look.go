package node

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// lookLocked begins a look if one is due, and sets the timer for the next one: see [wire.Life.Look].
func (n *Node) lookLocked(now time.Time) {
	due, next := n.pipeline.Life.Look(now)
	if !next.IsZero() {
		n.armLocked(next)
	}
	c := n.conn
	if !due || c.endLook != nil || c.server.Process == "" { // a look is under way, or there is no identity to compare with
		return
	}
	ctx, end := context.WithTimeout(n.ctx, n.config.DialTimeout)
	c.endLook = end
	n.running.Go(func() { n.look(ctx, c) })
}

// look finds out to which server another connection leads. If that is not the connected server, the present connection
// ends when the missing answers have arrived.
func (n *Node) look(ctx context.Context, c *conn) {
	found, err := n.find(ctx)
	n.mu.Lock()
	c.endLook()
	c.endLook = nil
	left := false
	if err == nil && c == n.conn {
		n.pipeline.Life.Found(c.server, found)
		left = n.pipeline.Left()
	}
	n.mu.Unlock()
	if left { // otherwise the connection ends with the last answer
		c.Cut()
	}
}

// moved takes the report of the Finder that the server is at this address now. A connection to another server ends when
// the missing answers have arrived, and a pause ends at once.
func (n *Node) moved(to string) {
	n.mu.Lock()
	n.movedTo = to
	n.leaveMovedLocked()
	left, c := n.pipeline.Left(), n.conn
	n.mu.Unlock()
	if left && c != nil { // otherwise the connection ends with the last answer
		c.Cut()
	}
	n.wakeLoop()
}

// leaveMovedLocked begins to leave a connection that leads to another address than the Finder has reported since.
func (n *Node) leaveMovedLocked() {
	if n.movedTo != "" && (n.conn == nil || n.conn.Address() != n.movedTo) {
		n.pipeline.Life.Moved()
	}
}

// find asks the server for its identity, over a connection of its own.
func (n *Node) find(ctx context.Context) (found wire.Identity, err error) {
	c := conn{}
	var login [][]string
	if n.config.Pool == nil {
		c.transport, login, err = Dial(ctx, *n.config.Server)
	} else {
		c.transport, err = dialLike(ctx, n.config.Pool)
	}
	if err != nil {
		return found, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Cut)()
	login = slices.DeleteFunc(login, func(words []string) bool { return words[0] != "AUTH" })
	err = c.exchange(append(login, infos...))
	return c.server, err
}
