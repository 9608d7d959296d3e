package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"
)

const (
	// pingEvery is how often a connection with nothing under way is tried, so that one that died silently is replaced
	// before it is needed.
	pingEvery = 10 * time.Second
	// The pause before the next attempt to connect doubles from minPause to maxPause, and is shortened by up to half at
	// random. There is none after a connection that has served a caller's command, unless the server broke the protocol then,
	// or that has lasted for maxPause.
	minPause = 20 * time.Millisecond
	maxPause = 1 * time.Second
)

// startLocked starts the connection loop, unless it runs.
func (n *Node) startLocked() {
	if !n.started {
		n.started = true
		go n.loop()
	}
}

func (n *Node) wakeLoop() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// loop is the node's own goroutine, from the first command until Close. It connects, writes, and connects again.
func (n *Node) loop() {
	defer close(n.done)
	var last *conn // the connection before, if it broke with answers missing
	var pause time.Duration
	for {
		c, err := n.connect(n.ctx, last)
		connected := time.Now()
		useful := false
		if err == nil {
			last = n.serve(c)
			useful = c.served && !errors.Is(c.err, ErrProtocol) || time.Since(connected) >= maxPause
		} else {
			n.mu.Lock()
			notices := n.pipeline.Failed(time.Now(), err)
			n.mu.Unlock()
			report(notices)
		}
		if n.closing() {
			break
		}
		if useful {
			pause = 0
			continue
		}
		pause = min(max(2*pause, minPause), maxPause)
		n.rest(pause - rand.N(pause/2))
	}
	n.mu.Lock()
	if n.timer != nil && n.timer.Stop() {
		n.expiring.Done()
	}
	notices := n.pipeline.End()
	n.mu.Unlock()
	report(notices)
	n.expiring.Wait()
}

func (n *Node) closing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pipeline.Closed()
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

// serve runs a connection until it breaks or the node is closed. It returns the connection if answers are missing on it.
func (n *Node) serve(c *conn) (unfinished *conn) {
	now := time.Now()
	n.mu.Lock()
	n.pipeline.Connected()
	n.conn, n.pingAt = c, now.Add(pingEvery)
	n.guard.Connected(now, c.server, c.up)
	n.armLocked(n.pingAt)
	n.trackLocked(now)
	n.mu.Unlock()
	go c.readAll(n)
	// The end of the node cuts the connection from outside: this goroutine may be in a write that hangs.
	stop := context.AfterFunc(n.ctx, c.cut)
	for !c.isBroken() {
		n.write(c)
		<-n.wake
	}
	stop()
	n.mu.Lock()
	n.conn = nil
	notices, missing := n.pipeline.Broken(time.Now(), c.err)
	n.mu.Unlock()
	report(notices)
	n.trackingLost(c)
	c.close()
	if missing {
		return c
	}
	return nil
}

// write writes what is queued, as long as the connection is good. It lets the goroutines go first that are about to queue
// something: one write takes it all along.
func (n *Node) write(c *conn) {
	for more := true; more && !c.isBroken(); {
		runtime.Gosched()
		n.mu.Lock()
		var refused []Notice[call]
		if left, is := n.guard.Quarantine(time.Now); is {
			refused = n.pipeline.Withdraw(func(c call) bool { return c.cmd.locks() }, &QuarantineError{Left: left})
		}
		more = n.takeLocked(c)
		c.packLocked()
		n.mu.Unlock()
		report(refused)
		if len(c.batch) > 0 && c.send() != nil {
			<-c.broken // the reader ends with it
		}
	}
}

// takeLocked takes what is queued, as much as is written at a time. It returns false if that is all: the loop is woken
// for what is queued afterwards.
func (n *Node) takeLocked(c *conn) bool {
	clear(c.requests)
	c.requests = c.requests[:0]
	for len(c.requests) < batchSize {
		op, late, ok := n.pipeline.Take(time.Now)
		if !ok {
			return false
		}
		if late {
			n.armLocked(time.Now().Add(n.config.Timeout))
		}
		c.requests = append(c.requests, op)
	}
	return true
}
