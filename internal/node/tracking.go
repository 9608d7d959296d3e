package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Listener is notified of changes to keys that were observed, see [Observe], and of what is published on its channel.
// Servers push both over the one connection of the node (RESP3, CLIENT TRACKING):
// https://redis.io/docs/latest/develop/reference/client-side-caching/
//
// Each node notifies on one goroutine at a time, the one that delivers replies, in the order in which the server
// sent them. So a change that is reported before the reply to an Observe happened before it was carried out, and one that is
// reported after it is about what it has shown. The calls must not block, nor wait for Node.Close; they may Send,
// Listen and Unlisten.
//
// A Listener is known by its identity, so it must be comparable: a pointer, for example.
type Listener interface {
	// Invalidated reports that the key has changed, or its TTL has, or it has expired or was created. It is a hint, and
	// an expiry is reported when the server comes across it, which may be late.
	Invalidated(node int, key string)
	// TrackingActive reports that changes are reported from now on, or that every key may have changed. What was
	// observed before has to be observed again.
	TrackingActive(node int)
	// TrackingLost reports that changes may be missed from now on, until TrackingActive.
	TrackingLost(node int)
	// Message reports that somebody has published text on the listener's channel. Messages are missed while the node is not
	// connected.
	Message(node int, text string)
}

// listening is a Listener of a node.
type listening struct {
	Listener
	node     int
	channel  string
	gone     bool // under the node's mutex
	notified bool // of TrackingActive on the present connection; of the goroutine that notifies
}

// Listen notifies l of changes and of messages on channel, under the number node, until Unlisten. "" means no channel. The
// node connects if it is not connected.
//
// If the server refuses tracking or the channel, the node asks again from time to time. Without tracking neither changes nor
// messages are reported, so never over RESP2, which is what wrapped pools speak. After Close, Listen does nothing.
func (n *Node) Listen(l Listener, node int, channel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pipeline.Closed() {
		return
	}
	before := n.removeLocked(l)
	n.listeners = append(n.listeners, &listening{Listener: l, node: node, channel: channel})
	n.leaveLocked(before)
	n.startLocked()
	if n.conn != nil {
		n.conn.tracking = false // asked again, so that l is notified
		n.trackLocked(time.Now())
	}
}

// Unlisten ends the notifications of l. A call that is under way may end after it.
func (n *Node) Unlisten(l Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaveLocked(n.removeLocked(l))
}

// leaveLocked ends the subscription to a channel that no listener has.
func (n *Node) leaveLocked(channel string) {
	if n.conn == nil || slices.ContainsFunc(n.listeners, func(x *listening) bool { return x.channel == channel }) {
		return
	}
	if _, asked := n.conn.channels[channel]; asked {
		n.conn.channels[channel] = false
		n.sendLocked(time.Now(), newCommand(unsubscribe, nil, channel, "", "UNSUBSCRIBE", channel), nil)
	}
}

// removeLocked takes a listener off and returns its channel. The list that others go through does not change.
func (n *Node) removeLocked(l Listener) (channel string) {
	others := make([]*listening, 0, len(n.listeners)+1)
	for _, x := range n.listeners {
		if x.gone = x.Listener == l; x.gone {
			channel = x.channel
		} else {
			others = append(others, x)
		}
	}
	n.listeners = others
	return channel
}

// trackLocked asks for the tracking that the connection does not have, or for the channels that listeners want. A server
// that refuses tracking is not asked for channels: miniredis would accept no other command then.
func (n *Node) trackLocked(now time.Time) {
	c := n.conn
	if !c.resp3 || len(n.listeners) == 0 {
		return
	}
	if !c.tracking {
		c.asked = true
		// OPTIN: what the scripts of release and extend read is not tracked.
		n.sendLocked(now, newCommand(tracking, nil, "", "", "CLIENT", "TRACKING", "ON", "OPTIN"), &trackingReply{n, c})
		return
	}
	for _, l := range n.listeners {
		if l.channel != "" && !c.channels[l.channel] {
			c.channels[l.channel] = false
			n.sendLocked(now, newCommand(subscribe, nil, l.channel, "", "SUBSCRIBE", l.channel), nil)
		}
	}
}

// trackingReply receives the reply to CLIENT TRACKING.
type trackingReply struct {
	node *Node
	conn *conn
}

// Reply implements [Receiver].
func (t *trackingReply) Reply(_ int, reply Reply) {
	t.node.mu.Lock()
	active := reply.Answer == quorum.Yes && t.node.conn == t.conn
	t.conn.refused = reply.Answer == quorum.Refused
	t.conn.tracking = active
	if active {
		t.node.trackLocked(time.Now())
	}
	t.node.mu.Unlock()
	if active {
		t.node.notify(func(l *listening) {
			if !l.notified {
				l.notified = true
				l.TrackingActive(l.node)
			}
		})
	}
}

// trackingLost notifies of the end of a connection. What was observed over it may have been tracked even if that was not
// confirmed in time.
func (n *Node) trackingLost(c *conn) {
	if !c.asked {
		return
	}
	n.notify(func(l *listening) {
		l.notified = false
		l.TrackingLost(l.node)
	})
}

// notify calls f for every listener. The mutex is not held.
func (n *Node) notify(f func(*listening)) {
	n.mu.Lock()
	listeners := n.listeners
	n.mu.Unlock()
	for _, l := range listeners {
		n.mu.Lock()
		gone := l.gone
		n.mu.Unlock()
		if !gone {
			f(l)
		}
	}
}

var errUnasked = fmt.Errorf("%w: it came unasked", ErrProtocol)

// pushed deals with what the server has pushed. It fails if nobody asked for it.
func (n *Node) pushed(c *conn, v *value) (more bool, err error) {
	if len(v.items) < 2 {
		return false, errUnasked
	}
	channel := string(v.items[1].text)
	switch string(v.items[0].text) {
	case "invalidate":
		return true, n.invalidated(c, &v.items[1])
	case "message":
		n.mu.Lock()
		_, asked := c.channels[channel]
		n.mu.Unlock()
		if len(v.items) != 3 || !asked {
			return false, errUnasked
		}
		if v.items[2].isText() {
			text := string(v.items[2].text)
			n.notify(func(l *listening) {
				if l.channel == channel {
					l.Message(l.node, text)
				}
			})
		}
		return true, nil
	case "subscribe", "unsubscribe":
		// In RESP3 this push is the reply to the command.
		n.mu.Lock()
		next, ok := n.pipeline.Next()
		isReply := ok && (next.cmd.kind == subscribe || next.cmd.kind == unsubscribe) && next.cmd.key == channel
		switch {
		case isReply && next.cmd.kind == subscribe:
			c.channels[channel] = true
		case isReply:
			delete(c.channels, channel)
		}
		n.mu.Unlock()
		if isReply {
			return n.answered(c, v)
		}
	}
	return false, errUnasked
}

// invalidated notifies of changes to keys; null stands for all keys.
func (n *Node) invalidated(c *conn, keys *value) error {
	n.mu.Lock()
	asked := c.asked
	n.mu.Unlock()
	switch {
	case !asked:
		return errUnasked
	case keys.kind == '_':
		n.notify(func(l *listening) { l.TrackingActive(l.node) })
	case keys.kind != '*':
		return errUnasked
	}
	for i := range keys.items {
		key := string(keys.items[i].text)
		n.notify(func(l *listening) { l.Invalidated(l.node, key) })
	}
	return nil
}
