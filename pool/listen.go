package pool

// Listener is told what happens to keys that were looked at ([Look]), and what is
// published on its channel. Each node calls it on one goroutine, one call after the other. The
// calls must not block, nor wait for Node.Close; they may send, Listen and Unlisten.
//
// A look that is sent after Hearing and answered with [Reply.Watched] has the next change to
// its key told, or Deaf. The one or the other may come before the reply to the look does: whatever
// comes after the look was sent counts against it. Changes may also be told more than once, or
// to keys that nobody has looked at.
//
// A Listener is known by its identity, so it must be comparable: a pointer, say.
type Listener interface {
	// Changed: the key has changed, or its TTL has, or it has expired, or has come to be. It is a
	// hint; and an expiry is announced when the server comes to it, which may be late.
	Changed(node int, key string)
	// Hearing: changes are told from now on, for the first time or after a break; or
	// everything may have changed. Whatever was looked at before has to be looked at again.
	Hearing(node int)
	// Deaf: changes may be missed from now on, until Hearing.
	Deaf(node int)
	// Message: somebody has published text on the listener's channel. What is published
	// while the node is not connected is missed, whether it hears or not.
	Message(node int, text string)
}

// Listen has l told what happens on the node, under the number node, from the first
// Hearing until Unlisten. An empty channel: it is told no messages. A listener that listens already
// is given the new number and channel, and is told Hearing again.
//
// The first Listen has the node connect, twice: over the second connection the server
// tells what happens. It is kept until Close. Where the server, its ACL or the pool does not
// permit that, Hearing is never told; what can be had is had, messages without changes for
// example, and the rest is asked for again from time to time. Listen returns at once.
// After Close it does nothing.
func (n *Node) Listen(l Listener, node int, channel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.commands.Closed() {
		return
	}
	if n.ear == nil {
		n.ear = newEar(n)
		go n.ear.keep()
		n.startLocked()
	}
	n.ear.removeLocked(l)
	n.ear.listeners = append(n.ear.listeners, &listening{to: l, node: node, channel: channel})
	n.ear.rouse()
}

// Unlisten has l told nothing more; a call under way may end after it. The node's
// second connection stays. What does not listen may be taken off as well.
func (n *Node) Unlisten(l Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ear != nil {
		n.ear.removeLocked(l)
		n.ear.rouse()
	}
}

// listening is a listener of a node.
type listening struct {
	to      Listener
	node    int
	channel string
	gone    bool // under the node's mutex
	heard   int  // the tracking that it was told of last, 0: it is deaf; for the ear's keeper
}

// removeLocked takes a listener off. The list that others still go through does not change.
func (e *ear) removeLocked(l Listener) {
	e.changes++
	others := make([]*listening, 0, len(e.listeners)+1)
	for _, x := range e.listeners {
		if x.gone = x.to == l; !x.gone {
			others = append(others, x)
		}
	}
	e.listeners = others
}

// each calls f for every listener, not under the mutex.
func (e *ear) each(f func(*listening)) {
	e.node.mu.Lock()
	listeners := e.listeners
	e.node.mu.Unlock()
	for _, x := range listeners {
		f(x)
	}
}

// tell makes one call, unless the listener has been taken off meanwhile.
func (e *ear) tell(x *listening, call func(l Listener, node int)) {
	e.node.mu.Lock()
	gone := x.gone
	e.node.mu.Unlock()
	if !gone {
		call(x.to, x.node)
	}
}

// report tells the listeners what has become of the tracking.
func (e *ear) report() {
	e.node.mu.Lock()
	tracking := e.tracking
	e.node.mu.Unlock()
	e.each(func(x *listening) {
		was := x.heard
		x.heard = tracking
		if was != tracking && was != 0 {
			e.tell(x, Listener.Deaf)
		}
		if was != tracking && tracking != 0 {
			e.tell(x, Listener.Hearing)
		}
	})
}

// changed tells that a key has changed.
func (e *ear) changed(key string) {
	e.each(func(x *listening) {
		if x.heard != 0 {
			e.tell(x, func(l Listener, node int) { l.Changed(node, key) })
		}
	})
}

// flushed tells that every key may have changed.
func (e *ear) flushed() {
	e.each(func(x *listening) {
		if x.heard != 0 {
			e.tell(x, Listener.Hearing)
		}
	})
}

// published tells that there was a message on a channel.
func (e *ear) published(channel, text string) {
	e.each(func(x *listening) {
		if x.channel == channel && channel != "" {
			e.tell(x, func(l Listener, node int) { l.Message(node, text) })
		}
	})
}
