package node

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// stampEvery is how often a server that refuses its stamp is sent it.
const stampEvery = time.Second

// stampName is what the node's stamp is called, in all programs.
func (c *Config) stampName() string {
	if c.Server != nil {
		return c.Server.Address
	}
	return c.Addr
}

// stamp finds out since when the server has been in use as this node, see [wire.Guard].
func (n *Node) stamp(c *conn) error {
	n.mu.Lock()
	set := n.guard.Connected(time.Now(), c.server)
	n.mu.Unlock()
	for set != nil {
		cmd := wire.Stamp(n.config.stampName(), set)
		c.Put(cmd.Words(nil, cmd.Script, true))
		if err := c.Flush(); err != nil {
			return err
		}
		v, err := c.Read()
		if err != nil {
			return err
		}
		r := cmd.Reply(&v)
		if r.Answer == quorum.Unknown || wire.Wrong(r.Err) {
			return r.Err
		}
		n.mu.Lock()
		set = n.guard.Stamped(time.Now(), set, &r)
		n.mu.Unlock()
	}
	return nil
}

// changed has the stamp read again: the server says that it has changed, or that everything has.
func (n *Node) changed(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c != n.conn {
		return // the next one asks in any case
	}
	if n.guard.Changed(); n.guard.Unstamped() {
		n.identifyLocked(time.Now())
	}
}

// identifyLocked asks the server of a connection who it is. Its stamp is asked for when it has answered.
func (n *Node) identifyLocked(now time.Time) {
	n.stampAt = now.Add(stampEvery)
	n.armLocked(n.stampAt)
	for _, section := range []string{"server", "replication"} {
		cmd := &wire.Command{Parse: parseInfo}
		n.sendLocked(now, call{cmd: cmd.With("INFO", section), own: identity})
	}
}

func parseInfo(v *wire.Value) wire.Reply {
	r := wire.YesIf(v.IsText(), v)
	r.Value = string(v.Text)
	return r
}

// identifiedLocked takes what the server of a connection says of itself.
func (n *Node) identifiedLocked(c *conn, a *answer) {
	if c != n.conn {
		return
	}
	life := &n.pipeline.Life
	before, section := c.server, a.cmd.Args[1]
	if a.with.Answer == quorum.Yes {
		if section == "replication" {
			c.server.Before = "" // that may be over
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

// askStampLocked asks for the stamp, and for what changes it from then on.
func (n *Node) askStampLocked(now time.Time, set []string) {
	if set != nil {
		n.sendLocked(now, call{cmd: wire.Stamp(n.config.stampName(), set), own: stamping})
	}
}

// stampedLocked takes the answer to a stamp.
func (n *Node) stampedLocked(c *conn, a *answer) {
	now := time.Now()
	next := n.guard.Stamped(now, a.cmd.Args, &a.with)
	c.watched = c.watched || a.tracked
	if c != n.conn {
		return
	}
	n.askStampLocked(now, next)
	if h := n.healthLocked(now); next == nil && standingOf(now, &h).differs(n.health.votes) {
		h.Same, n.health.votes = true, standingOf(now, &h)
		n.reportLocked(h)
	}
}
