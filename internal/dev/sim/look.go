package sim

import "github.com/quorumlock/quorumlock/internal/wire"

// errReplica is what a server that was a master says, to whatever it is asked.
var errReplica = wire.NewServerError("READONLY You can't write against a read only replica.")

// wrong records that the server of a connection is not the one to be asked.
func (l *line) wrong(c *conn, why error) {
	if c == l.conn {
		l.commands.Life.Wrong(why)
		l.leave(c)
	}
}

// found takes which server was found.
func (l *line) found(c *conn, server wire.Identity) {
	if c == l.conn {
		l.commands.Life.Found(c.identity, server)
		l.leave(c)
	}
}

// leave ends a connection to the wrong server that has nothing under way.
func (l *line) leave(c *conn) {
	if c == l.conn && l.commands.Left() {
		c.breakOff(0)
	}
}

// moved takes a report that the name of the node leads to another server than before.
func (l *line) moved() {
	switch c := l.conn; {
	case l.commands.Life.State() == wire.Idle:
	case c == nil:
		l.commands.Life.Moved()
		l.dial()
	case c.server != l.server || c.former:
		l.commands.Life.Moved()
		l.leave(c)
	}
}

// look asks over a connection of its own where the name of the node leads, when it is time.
func (l *line) look(c *conn) {
	if c != l.conn || l.resting { // all names stay where they are
		return
	}
	now := l.client.mono.Now()
	due, next := l.commands.Life.Look(now)
	if next.IsZero() {
		return
	}
	l.client.after(l.client.mono.until(next)+1, func() { l.look(c) })
	if !due {
		return
	}
	other := l.newConn()
	l.client.after(lookTimeout, func() { other.cut = true })
	other.send(message{asks: true, refused: func() {}, greeted: func(server wire.Identity) {
		other.cut = true
		l.found(c, server)
	}})
}
