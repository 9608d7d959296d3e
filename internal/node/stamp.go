package node

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// stampEvery is how often the node asks an unstamped server again for its identity and stamp.
const stampEvery = time.Second

// stampName returns the name of the node's stamp, which is the same in all programs.
func (c *Config) stampName() string {
	if c.Server != nil {
		return c.Server.StampName()
	}
	return c.Addr
}

// StampName returns the name of the stamp of the node that has this server.
func (s *Server) StampName() string {
	if s.Finder != nil {
		return s.Finder.Name()
	}
	return s.Address
}

// stamp finds out since when the server has been in use as this node, see [wire.Guard]. From then on the server pushes
// changes of the stamp, if it can.
func (n *Node) stamp(c *conn) error {
	n.mu.Lock()
	set := n.guard.Connected(time.Now(), c.server)
	n.mu.Unlock()
	for set != nil {
		r, err := c.stamp(wire.Stamp(n.config.stampName(), set))
		if err != nil {
			return err
		}
		n.mu.Lock()
		set = n.guard.Stamped(time.Now(), set, &r)
		n.mu.Unlock()
	}
	return nil
}

// stamp sends a stamp with one write, as part of the greeting.
func (c *conn) stamp(cmd *wire.Command) (r wire.Reply, err error) {
	tracks := [][]string{startTracking, {"CLIENT", "CACHING", "YES"}}
	if c.asked = c.resp3; !c.asked {
		tracks = nil
	}
	stamp := cmd.Words(nil, cmd.Script, true)
	c.tagKeys(stamp, stamping)
	for _, words := range append(tracks, stamp) {
		c.Put(words)
	}
	if err := c.Flush(); err != nil {
		return r, err
	}
	c.watched = c.asked
	for replies := 0; replies <= len(tracks); {
		v, err := c.Read()
		switch {
		case err != nil:
			return r, err
		case v.Kind == '>': // the stamp has changed already
			c.watched = false
			continue
		case replies == len(tracks):
			r = c.reply(cmd, &v)
		case !v.IsOK():
			c.watched = false
		}
		replies++
	}
	c.watched = c.watched && r.Answer == quorum.Yes
	if r.Answer == quorum.Unknown || wire.Wrong(r.Err) {
		return r, r.Err
	}
	return r, nil
}

// changed reads the stamp again, because the server says that the stamp or everything has changed.
func (n *Node) changed(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c != n.conn {
		return // the next connection asks in any case
	}
	switch now := time.Now(); {
	case n.guard.Changed(now):
		n.identifyLocked(now)
	case n.guard.Unstamped() && n.stampAt.Before(now): // otherwise that is planned already
		n.stampLaterLocked(now)
	}
}

// stampLaterLocked plans to stamp the server after stampEvery, if the server is unstamped then.
func (n *Node) stampLaterLocked(now time.Time) {
	n.stampAt = now.Add(stampEvery)
	n.armLocked(n.stampAt)
}

// identifyLocked asks the server of the connection for its identity. When the server has answered, the node asks for
// its stamp.
func (n *Node) identifyLocked(now time.Time) {
	n.stampLaterLocked(now)
	for _, words := range infos {
		if words[1] == "server" && n.conn.server.Process != "" { // a process keeps its run_id
			continue
		}
		cmd := &wire.Command{Parse: parseInfo}
		n.sendLocked(now, pending{cmd: cmd.With(words...), own: identity})
	}
}

// parseInfo parses the reply to INFO. Its text is the Value.
func parseInfo(v *wire.Value) wire.Reply {
	r := wire.YesIf(v.IsText(), v)
	r.Value = string(v.Text)
	return r
}

// identifiedLocked handles the answer of a server about its identity.
func (n *Node) identifiedLocked(c *conn, a *answer) {
	if c != n.conn {
		return
	}
	life := &n.pipeline.Life
	before, section := c.server, a.cmd.Args[1]
	if a.with.Answer == quorum.Yes {
		if section == "replication" {
			c.server.Before = "" // the server may no longer report it
		}
		if err := c.identify([]byte(a.with.Value)); err != nil {
			life.Wrong(err)
		}
	}
	life.Found(before, c.server)
	if section == "replication" && life.State() == wire.Serving {
		now := time.Now()
		n.askStampLocked(now, n.guard.Connected(now, c.server))
	}
}

// askStampLocked sends the stamp that set describes, if there is one. From then on the server pushes changes of the
// stamp.
func (n *Node) askStampLocked(now time.Time, set []string) {
	if set != nil {
		n.sendLocked(now, pending{cmd: wire.Stamp(n.config.stampName(), set), own: stamping})
	}
}

// stampedLocked handles the answer to a stamp.
func (n *Node) stampedLocked(c *conn, a *answer) {
	now := time.Now()
	next := n.guard.Stamped(now, a.cmd.Args, &a.with)
	c.watched = c.watched || a.tracked
	if c != n.conn {
		return
	}
	n.askStampLocked(now, next)
	h := n.healthLocked(now)
	if votes := standingOf(now, &h); next == nil && votes.differs(n.health.votes) {
		h.Same, n.health.votes = true, votes
		n.reportLocked(h)
	}
}
