package pool

import (
	"runtime"
	"time"
)

const (
	// batchSize is how many commands are taken from the queue at a time.
	batchSize = 64
	// pingEvery is how often a connection with nothing under way is tried, so that
	// one that died silently is replaced before it is needed.
	pingEvery = 10 * time.Second
	// The pause before the next attempt to connect doubles from the first value to the
	// second, and is shortened by up to half at random. There is none after a connection
	// that was of use, or lasted for the second value.
	minPause = 20 * time.Millisecond
	maxPause = 1 * time.Second
)

// keep is the node's keeper, one goroutine from the first command or Listen until Close: it
// connects, writes, and connects again.
func (n *Node) keep() {
	defer close(n.done)
	var last *link // the connection before, if it broke with answers missing
	var again backoff
	for {
		l, err := n.connect(n.ctx, last)
		connected := time.Now()
		if err == nil {
			last = n.serve(l)
		} else if !n.closing() {
			n.failed(err)
		}
		if n.closing() {
			break
		}
		if err == nil && (l.served || time.Since(connected) >= maxPause) {
			again = backoff{}
			continue
		}
		again.later(time.Now(), maxPause)
		n.rest(time.Until(again.at))
	}
	n.mu.Lock()
	if n.timer != nil && n.timer.Stop() {
		n.expiring.Done()
	}
	notices := n.commands.End()
	n.mu.Unlock()
	tell(notices)
	n.expiring.Wait()
}

func (n *Node) closing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.commands.Closed()
}

// rest waits for d or for Close.
func (n *Node) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !n.closing() {
		select {
		case <-timer.C:
			return
		case <-n.wake:
		}
	}
}

// failed ends what waits for a connection that did not come about.
func (n *Node) failed(err error) {
	n.mu.Lock()
	notices := n.commands.Failed(time.Now(), err)
	n.ear.giveWayLocked()
	n.mu.Unlock()
	tell(notices)
}

// serve runs a connection until it breaks or the node is closed. It returns the
// link if answers are missing on it.
func (n *Node) serve(l *link) (unfinished *link) {
	n.mu.Lock()
	notices := n.commands.Settled(l.fenced)
	n.commands.Connected()
	now := time.Now()
	n.link, n.pingAt = l, now.Add(pingEvery)
	n.guard.Connected(now, l.server, l.up)
	n.armLocked(n.pingAt)
	n.ear.rouse()
	n.mu.Unlock()
	tell(notices)
	go l.read(n)
	// The end of the node cuts the link from outside: the keeper may be in a write that hangs.
	stop := l.cutWith(n.ctx)
	for !l.over() {
		n.write(l)
		<-n.wake
	}
	stop()
	return n.retire(l)
}

// write writes what is queued, as long as the link is good. It lets the goroutines go
// first that are about to queue something: one write takes it all along.
func (n *Node) write(l *link) {
	for more := true; more && !l.over(); {
		runtime.Gosched()
		n.mu.Lock()
		refused := n.refuseLocked()
		more = n.takeLocked(l)
		l.packLocked()
		n.mu.Unlock()
		tell(refused)
		if len(l.batch) > 0 && l.wire.write(l.batch) != nil {
			<-l.broken // the reader ends with it
		}
	}
}

// takeLocked takes what is queued, as much as is written at a time. It returns false if that is all: for what is
// queued then, the keeper is roused.
func (n *Node) takeLocked(l *link) bool {
	clear(l.taken)
	l.taken = l.taken[:0]
	for len(l.taken) < batchSize {
		o, owed, ok := n.commands.Take(time.Now)
		if !ok {
			return false
		}
		if owed {
			n.armLocked(time.Now().Add(n.opts.timeout))
		}
		l.taken = append(l.taken, taken{o.Item.cmd, o.Again})
	}
	return true
}

// retire ends a link whose reader has ended. It returns the link if answers are missing
// on it.
func (n *Node) retire(l *link) (unfinished *link) {
	n.mu.Lock()
	n.link = nil
	n.ear.unlinkedLocked()
	notices, missing := n.commands.Broken(time.Now(), l.err)
	n.mu.Unlock()
	tell(notices)
	l.cutting.Wait()
	if n.own {
		l.wire.cut() // nothing may be waited for, such as TLS's goodbye
	}
	_ = l.conn.Close()
	if missing {
		return l
	}
	return nil
}
