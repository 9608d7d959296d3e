package node

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

const (
	// maxAttended is how many channels a node attends at most.
	maxAttended = 4096
	// maxAttending is how many requests about such channels are under way at most, because the commands of callers need
	// room.
	maxAttending = batchSize
)

// attendance is the state of a channel on a connection.
type attendance struct {
	in    bool // the server has confirmed that the connection is subscribed
	asked bool // a request is under way
}

// Attend subscribes to a channel, so that the server counts the node among the subscribers. The node is subscribed on
// every connection until Leave was called as many times as Attend has returned true. Messages on the channel are
// ignored. A listener must not have the same channel.
//
// Attend returns false if the node attends too many channels, or is closed. The node does not connect for it, and
// subscribes only while it has tracking. If the server refuses, the node asks again from time to time.
func (n *Node) Attend(channel string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pipeline.Closed() || n.attended[channel] == 0 && len(n.attended) >= maxAttended {
		return false
	}
	if n.attended == nil {
		n.attended = map[string]int{}
	}
	n.attended[channel]++
	n.attendLocked(time.Now(), channel)
	return true
}

// Leave takes back an Attend that has returned true.
func (n *Node) Leave(channel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.attended[channel]--; n.attended[channel] == 0 {
		delete(n.attended, channel)
		n.attendLocked(time.Now(), channel)
	}
}

// attendLocked subscribes the connection to a channel or unsubscribes it, if that is due and no request about the
// channel is under way.
func (n *Node) attendLocked(now time.Time, channel string) {
	c := n.conn
	if c == nil || !c.resp3 {
		return
	}
	word, attends, a := "UNSUBSCRIBE", n.attended[channel] > 0, c.attends[channel]
	if attends {
		word = "SUBSCRIBE"
	}
	switch {
	case a.asked || a.in == attends || attends && !c.tracking || slices.Contains(c.barred, word):
	case n.attending < maxAttending && n.sendLocked(now, attending.pending(channel, word, channel)):
		n.attending++
		a.asked = true
		c.attends[channel] = a
	default:
		c.unattended = true
	}
}

// attendAllLocked calls attendLocked for all channels, while there is room for requests.
func (n *Node) attendAllLocked(now time.Time) {
	c := n.conn
	c.unattended = false
	for channel := range n.attended {
		if n.attendLocked(now, channel); c.unattended {
			return
		}
	}
	for channel := range c.attends {
		if n.attendLocked(now, channel); c.unattended {
			return
		}
	}
}

// attendAnsweredLocked handles the answer to a request. A command that the server refuses is not sent again before the
// next test of the connection.
func (n *Node) attendAnsweredLocked(c *conn, answer *answer) {
	channel, word := answer.cmd.Key, answer.cmd.Args[0]
	in := c.attends[channel].in
	switch {
	case answer.with.Answer == quorum.Yes:
		in = word == "SUBSCRIBE"
	case !slices.Contains(c.barred, word):
		c.barred = append(c.barred, word)
	}
	c.attendedLocked(channel, in)
	if !answer.with.Late { // otherwise attendEndedLocked has counted it
		n.attending--
	}
	n.attendLocked(time.Now(), channel)
}

// attendEndedLocked handles a request that ended without an answer. One that was not written is repeated after the next
// reply.
func (n *Node) attendEndedLocked(channel string, answer quorum.Answer) {
	n.attending--
	if c := n.conn; c != nil && answer == quorum.Unsent {
		c.attendedLocked(channel, c.attends[channel].in)
		c.unattended = true
	}
}

// attendedLocked records that no request about a channel is under way.
func (c *conn) attendedLocked(channel string, in bool) {
	if in {
		c.attends[channel] = attendance{in: true}
	} else {
		delete(c.attends, channel)
	}
}
