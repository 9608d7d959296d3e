package node

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Listener is notified of changes to keys that were observed, see [wire.Command], and of what is published on its channel.
// Servers push both over the one connection of the node (RESP3, CLIENT TRACKING):
// https://redis.io/docs/latest/develop/reference/client-side-caching/
//
// Each node notifies on one goroutine at a time, the one that delivers replies, in the order in which the server
// sent them. So a change that is reported before the reply to an Observe happened before it was carried out, and one that is
// reported after it is about what it has shown. The calls must not block or wait for Node.Close; they may Send,
// Listen and Unlisten.
//
// A Listener is known by its identity, so it must be comparable: a pointer, for example.
type Listener interface {
	// Invalidated reports that the key has changed, or its TTL has, or it has expired or was created. It is a hint, and
	// an expiry is reported when the server comes across it, which may be late.
	Invalidated(node int, key string)
	// Changed is Invalidated for what the node itself has done to a key, tracked or not. It comes before the reply, which is for by.
	Changed(node int, key string, by wire.Receiver)
	// TrackingActive reports that changes are reported from now on, or that every key may have changed. What was
	// observed before has to be observed again. It comes again when the node gets another listener.
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
	node    int
	channel string
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
	n.startLocked()
	if n.conn != nil {
		n.conn.tracking = false // asked again, so that l is notified
	}
	n.replaceLocked(l, &listening{l, node, channel})
}

// Unlisten ends the notifications of l. A call that is under way may end after it.
func (n *Node) Unlisten(l Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replaceLocked(l)
}

// replaceLocked puts something in the place of a listener. The list that others go through does not change.
func (n *Node) replaceLocked(l Listener, by ...*listening) {
	others := slices.DeleteFunc(slices.Clone(n.listeners), func(x *listening) bool { return x.Listener == l })
	n.listeners = slices.Concat(others, by)
	if n.conn != nil {
		n.trackLocked(time.Now())
	}
}

// startTracking has a server push the changes of what it is asked for. OPTIN: what other commands read is not tracked. NOLOOP: the node itself
// knows what it has changed, and a lock that is renewed would be pushed each time.
var startTracking = []string{"CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"}

// trackLocked leaves the channels that no listener wants, and asks for the tracking that the connection does not have, or
// for the channels that it lacks. A server that refuses tracking is not asked for those: miniredis would accept no other
// command then.
func (n *Node) trackLocked(now time.Time) {
	c := n.conn
	c.unasked = false
	for channel := range c.channels {
		if !slices.ContainsFunc(n.listeners, func(l *listening) bool { return l.channel == channel }) {
			n.sendLocked(now, subscription.pending(channel, "UNSUBSCRIBE", channel))
		}
	}
	switch {
	case !c.resp3 || len(n.listeners) == 0 && (n.config.MaxTTL == 0 || c.watched):
		return
	case !c.tracking:
		c.asked = true
		c.unasked = !n.sendLocked(now, tracking.pending("", startTracking...))
		return
	}
	if n.config.MaxTTL > 0 && !c.watched {
		n.identifyLocked(now) // a change of its stamp is pushed from then on
	}
	for _, l := range n.listeners {
		if l.channel != "" && !c.channels[l.channel] {
			c.channels[l.channel] = false
			c.unasked = !n.sendLocked(now, subscription.pending(l.channel, "SUBSCRIBE", l.channel)) || c.unasked
		}
	}
}

// trackingAnswered takes the answer to CLIENT TRACKING.
func (n *Node) trackingAnswered(c *conn, answer quorum.Answer) {
	active := answer == quorum.Yes
	n.mu.Lock()
	c.tracking, c.refused = active, answer == quorum.Refused
	if active {
		n.trackLocked(time.Now())
	}
	n.mu.Unlock()
	if active {
		n.notify(func(l *listening) { l.TrackingActive(l.node) })
	}
}

// notify calls f for every listener. The mutex is not held.
func (n *Node) notify(f func(*listening)) {
	n.mu.Lock()
	listeners := n.listeners
	n.mu.Unlock()
	for _, l := range listeners {
		n.mu.Lock()
		listens := slices.Contains(n.listeners, l)
		n.mu.Unlock()
		if listens {
			f(l)
		}
	}
}

// pushed deals with what the server has pushed. It fails if nobody asked for it.
func (n *Node) pushed(c *conn, v *wire.Value) error {
	if len(v.Items) < 2 {
		return errUnasked
	}
	what, about := string(v.Items[0].Text), &v.Items[1]
	channel := string(about.Text)
	n.mu.Lock()
	tracks := c.asked
	_, subscribed := c.channels[channel]
	next := n.pipeline.Next()
	isReply := next != nil && next.own == subscription &&
		next.cmd.Key == channel && strings.EqualFold(next.cmd.Args[0], what)
	switch {
	case isReply && what == "subscribe":
		c.channels[channel] = true
	case isReply:
		delete(c.channels, channel)
	}
	n.mu.Unlock()
	switch {
	case isReply: // in RESP3 this push is the reply to the command
		return n.answered(c, v)
	case what == "message" && subscribed && len(v.Items) == 3:
		if v.Items[2].IsText() {
			text := string(v.Items[2].Text)
			n.notify(func(l *listening) {
				if l.channel == channel {
					l.Message(l.node, text)
				}
			})
		}
	case what != "invalidate" || !tracks:
		return errUnasked
	case about.Kind == '_': // it stands for all keys
		n.changed(c)
		n.notify(func(l *listening) { l.TrackingActive(l.node) })
	case about.Kind == '*':
		for _, item := range about.Items {
			key := string(item.Text)
			if key == wire.StampKey(n.config.stampName()) {
				n.changed(c)
			}
			n.notify(func(l *listening) { l.Invalidated(l.node, key) })
		}
	default:
		return errUnasked
	}
	return nil
}
