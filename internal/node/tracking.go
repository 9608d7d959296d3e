package node

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Listener is notified when a key changes that was observed, see [wire.Command], and when a message is published on its
// channel. Servers push both over the one connection of the node (RESP3, CLIENT TRACKING):
// https://redis.io/docs/latest/develop/reference/client-side-caching/
//
// Each node notifies on one goroutine at a time, in the order in which the server sent its pushes and replies. The
// goroutine is the one that delivers replies, and for TrackingLost the connection loop. So a change that is reported
// before the reply to an observation happened before the observation. A change that is reported after that reply
// happened after the observation. The calls must not block or wait for Node.Close. They may call Send, Listen and
// Unlisten.
//
// A node knows a Listener by its identity, so it must be comparable: a pointer, for example.
type Listener interface {
	// Invalidated reports that the key was created, changed or expired, or that its TTL changed. It is a hint. An expiry
	// is reported when the server notices it, which may be late.
	Invalidated(node int, key string)
	// Changed reports that a command of the node itself has changed the key, or may have. It does so whether the key is
	// tracked or not. It comes before the reply to the command, whose receiver is by. If Changed returns true, it has
	// handed the reply to the receiver. reply is nil if the receiver does not get it.
	Changed(node int, key string, by wire.Receiver, tag wire.Tag, reply *wire.Reply) (replied bool)
	// TrackingActive reports that changes are reported from now on, or that every key may have changed. Keys that were
	// observed before have to be observed again. It comes again when the node gets another listener.
	TrackingActive(node int)
	// TrackingLost reports that changes may be missed from now on, until TrackingActive.
	TrackingLost(node int)
	// Message reports that text was published on the listener's channel. Messages are missed while the node is not
	// connected.
	Message(node int, text string)
}

// listening is a Listener of a node.
type listening struct {
	Listener
	node    int
	channel string
}

// Listen notifies l of changes, and of messages on channel, until Unlisten. node is the number of the node in these
// notifications. channel "" means no channel. The node connects if it is not connected.
//
// If the server refuses tracking or the channel, the node asks again from time to time. Without tracking it does not
// report changes or messages. That is always so over RESP2, which wrapped pools speak. After Close, Listen does
// nothing.
func (n *Node) Listen(l Listener, node int, channel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pipeline.Closed() {
		return
	}
	n.startLocked()
	if n.conn != nil {
		n.conn.tracking = false // the node asks for tracking again, so that l is notified
	}
	n.replaceLocked(l, &listening{l, node, channel})
}

// Unlisten ends the notifications of l. A notification that is under way may end after Unlisten returns.
func (n *Node) Unlisten(l Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replaceLocked(l)
}

// replaceLocked replaces a listener by another one, or removes it. It makes a new list, because other goroutines may be
// going through the old one.
func (n *Node) replaceLocked(l Listener, by ...*listening) {
	others := slices.DeleteFunc(slices.Clone(n.listeners), func(x *listening) bool { return x.Listener == l })
	n.listeners = slices.Concat(others, by)
	if n.conn != nil {
		n.trackLocked(time.Now())
	}
}

// startTracking is the command that makes a server push the changes of observed keys. With OPTIN the server does not
// track the keys that other commands read. With NOLOOP it does not push changes that the node itself has made. The node
// knows those, and the server would push each renewal of a lock.
var startTracking = []string{"CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"}

// trackLocked leaves the channels that no listener wants. It asks for tracking if the connection does not have it, and
// otherwise for the channels that the connection lacks. While the server refuses tracking, it asks for no channels:
// miniredis would then accept no other command.
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
		n.identifyLocked(now) // from then on the server pushes a change of its stamp
	}
	for _, l := range n.listeners {
		if l.channel != "" && !c.channels[l.channel] {
			c.channels[l.channel] = false
			c.unasked = !n.sendLocked(now, subscription.pending(l.channel, "SUBSCRIBE", l.channel)) || c.unasked
		}
	}
}

// trackingAnswered handles the answer to CLIENT TRACKING.
func (n *Node) trackingAnswered(c *conn, answer quorum.Answer) {
	active := answer == quorum.Yes
	n.mu.Lock()
	c.tracking, c.refused = active, answer == quorum.Refused
	if active {
		n.trackLocked(time.Now())
		n.attendAllLocked(time.Now())
	}
	n.mu.Unlock()
	if active {
		n.notify(func(l *listening) { l.TrackingActive(l.node) })
	}
}

// notify calls f for every listener, without the mutex.
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

// pushed handles a push of the server. It fails if the node did not ask for the push.
func (n *Node) pushed(c *conn, v *wire.Value) error {
	if len(v.Items) < 2 {
		return errUnasked
	}
	what, about := string(v.Items[0].Text), &v.Items[1]
	channel := strings.TrimPrefix(string(about.Text), c.tag)
	n.mu.Lock()
	tracks := c.asked
	_, subscribed := c.channels[channel]
	_, attended := c.attends[channel]
	next := n.pipeline.Next()
	isReply := next != nil && (next.own == subscription || next.own == attending) &&
		next.cmd.Key == channel && strings.EqualFold(next.cmd.Args[0], what)
	switch {
	case isReply && next.own == attending: // attendAnsweredLocked handles it
	case isReply && what == "subscribe":
		c.channels[channel] = true
	case isReply:
		delete(c.channels, channel)
	}
	n.mu.Unlock()
	switch {
	case isReply: // in RESP3 this push is the reply to the command
		return n.answered(c, v)
	case what == "message" && attended:
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
	case about.Kind == '_': // null stands for all keys
		n.changed(c)
		n.notify(func(l *listening) { l.TrackingActive(l.node) })
	case about.Kind == '*':
		for _, item := range about.Items {
			key, ours := strings.CutPrefix(string(item.Text), c.tag)
			if !ours {
				continue
			}
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
