package node

import (
	"context"
	"runtime"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

const (
	// pingEvery is how often the node tests a connection that has nothing under way. The node thus finds and replaces a
	// connection that died silently, before a caller needs it.
	pingEvery = 10 * time.Second
	// retryAfter is after which time clean-up is sent again to a cluster that is changing.
	retryAfter = 100 * time.Millisecond
	// minPause and maxPause are the bounds of the pauses between attempts to connect, see [wire.Life].
	minPause = 20 * time.Millisecond
	maxPause = 1 * time.Second
	// maxCostly takes the place of maxPause after attempts that cost the server much.
	maxCostly = 5 * time.Second
)

// startLocked starts the connection loop, unless it was started before.
func (n *Node) startLocked() {
	if n.timer == nil {
		n.timer = time.AfterFunc(n.config.Timeout, n.expire)
		n.running.Go(n.loop)
	}
}

// wakeLoop wakes the connection loop. It does not block.
func (n *Node) wakeLoop() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// loop connects, writes the queued commands, and connects again. It runs on the node's own goroutine, from the first
// command or listener until Close.
func (n *Node) loop() {
	if f := n.server().Finder; f != nil {
		ctx, cancel := context.WithCancel(n.ctx)
		defer cancel()
		n.running.Go(func() { f.Follow(ctx, n.moved) })
	}
	var last *conn // the previous connection, if it broke while answers were missing
	for closed := false; !closed; {
		n.pause()
		c, err := n.connect(last)
		if err == nil {
			last = n.serve(c)
		}
		n.mu.Lock()
		failed, now := err != nil, time.Now()
		switch closed = n.pipeline.Closed(); {
		case closed:
			err = nodeerr.ErrClosed
			n.pipeline.Drop(now, err)
		case failed:
			n.pipeline.Failed(now, err, n.cheap(err))
		}
		if failed {
			n.failedLocked(err)
		}
		n.unlock()
	}
	n.timer.Stop()
	n.expiring <- struct{}{} // waits for a call of expire that has begun; a later one finds nothing to do
	<-n.expiring
}

// pause waits until the next attempt to connect is due.
func (n *Node) pause() {
	for {
		n.mu.Lock()
		now := time.Now()
		at := n.pipeline.Life.Dial(now, len(n.listeners) > 0)
		dials := !now.Before(at)
		if dials {
			n.movedTo = ""
		}
		n.mu.Unlock()
		if dials {
			return
		}
		select {
		case <-n.wake:
		case <-time.After(at.Sub(now)):
		}
	}
}

// serve runs a connection until it breaks or the node is closed. It returns the connection if answers are missing on
// it, and otherwise nil.
func (n *Node) serve(c *conn) (unfinished *conn) {
	now := time.Now()
	n.mu.Lock()
	n.pipeline.Greeted(now)
	n.conn, n.pingAt = c, now.Add(pingEvery)
	n.leaveMovedLocked()
	n.upLocked(now)
	n.armLocked(n.pingAt)
	n.lookLocked(now)
	if n.guard.Unstamped() {
		n.stampLaterLocked(now)
	}
	n.trackLocked(now)
	left := n.pipeline.Left()
	n.mu.Unlock()
	if left {
		c.Cut()
	}
	go c.readAll(n)
	// The end of the node's context cuts the connection from outside: this goroutine may be in a write that hangs.
	stop := context.AfterFunc(n.ctx, c.Cut)
	for !c.broken.Load() {
		if more := n.write(c); !more {
			<-n.wake
		}
	}
	stop()
	n.mu.Lock()
	n.conn = nil
	if c.endLook != nil {
		c.endLook()
	}
	n.guard.Broken(time.Now())
	why := c.err
	if why == nil && c.overdue {
		why = nodeerr.ErrTimeout
	}
	if n.pipeline.Life.State() == wire.Leaving {
		why, n.left = n.pipeline.Life.Reason(), c.server.Process
	}
	n.brokenLocked(why)
	if n.pipeline.Broken(time.Now(), c.err, c.use, n.plain()) {
		unfinished = c
	}
	n.unlock()
	if c.asked { // the server may track observed keys even if it did not confirm that in time
		n.notify(func(l *listening) { l.TrackingLost(l.node) })
	}
	c.Close()
	return unfinished
}

// write writes commands that are queued, batchSize at most. First it lets goroutines run that are about to queue
// something, so that one write carries all of it. It returns false if the loop is woken when there is more to do.
func (n *Node) write(c *conn) (more bool) {
	runtime.Gosched()
	now := time.Now()
	n.mu.Lock()
	if why := n.guard.Quarantine(now); why != nil {
		n.pipeline.Withdraw(now, "", why)
	}
	taken := n.pipeline.Take(now, batchSize)
	if len(taken) > 0 {
		n.armLocked(now.Add(n.config.Timeout))
	}
	c.packLocked(taken)
	n.unlock()
	failed := len(c.requests) > 0 && c.send() != nil
	for failed && !c.broken.Load() { // the reader ends too, and wakes the loop
		<-n.wake
	}
	return failed || len(c.requests) == batchSize
}
