package pool

import (
	"context"
	"errors"
	"time"
)

// deafPause is the longest pause before something is asked for again that the server has
// refused, or that a wrapped pool has not to give.
const deafPause = 30 * time.Second

// ear is what a node hears with: a second connection, on which the server tells what
// becomes of keys that were looked at over the first one. It has a goroutine of its own,
// its keeper, from the first Listen until Close, which alone calls the listeners.
//
// There are no two connections before there is one: the ear connects while the node has
// its link, and gives way when that cannot be made again. Neither a server's last client
// nor a pool's last connection goes to it.
type ear struct {
	node   *Node
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{} // for the keeper: something below has changed, or the node's link has
	done   chan struct{} // closed when the keeper has ended

	// Under the node's mutex.
	listeners []*listening       // replaced rather than changed
	changes   int                // of listeners
	abandon   context.CancelFunc // ends the attempt to connect
	giveWay   bool               // the node could not connect: the ear must not either
	asked     *Command           // a tracking under way on the node's present link
	failed    error              // why the one before did not succeed
	tracking  int                // the number of the one that is in force on the node's present link, 0: none
	last      int                // number given
}

func newEar(n *Node) *ear {
	ctx, cancel := context.WithCancel(n.ctx)
	return &ear{
		node: n, ctx: ctx, cancel: cancel,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		abandon: func() {},
	}
}

// rouse wakes the ear's keeper, if there is an ear.
func (e *ear) rouse() {
	if e == nil {
		return
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// unlinkedLocked tells of the end of the node's link, and of the tracking with it. The
// attempt of the ear to connect ends before a wrapped pool has the place of the link to give.
func (e *ear) unlinkedLocked() {
	if e == nil {
		return
	}
	e.abandon()
	e.asked, e.failed, e.tracking = nil, nil, 0
	e.rouse()
}

// giveWayLocked tells that the node could not connect.
func (e *ear) giveWayLocked() {
	if e != nil {
		e.giveWay = true
		e.rouse()
	}
}

// keep is the ear's keeper.
func (e *ear) keep() {
	defer close(e.done)
	defer e.cancel()
	var again backoff
	for {
		ctx, link := e.begin()
		if link == nil {
			return
		}
		l, err := e.node.connect(ctx, nil)
		e.abandon() // what it ends is over
		longest := maxPause
		switch connected := time.Now(); {
		case err == nil:
			e.hear(l)
			if time.Since(connected) >= maxPause {
				again = backoff{}
			}
		case !e.node.own: // whether its pool waits for the network or for a connection to give cannot be told
			longest = deafPause
		default:
			longest = longestPause(err)
		}
		again.later(time.Now(), longest)
		e.rest(link, again.at)
	}
}

// begin waits for the node's link, which it returns with the context of an attempt to
// connect. It returns nil when the ear is to end.
func (e *ear) begin() (context.Context, *link) {
	for e.ctx.Err() == nil {
		ctx := e.ctx
		e.node.mu.Lock()
		l := e.node.link
		if l != nil {
			ctx, e.abandon = context.WithCancel(ctx)
			e.giveWay = false
		}
		e.node.mu.Unlock()
		if l != nil {
			return ctx, l
		}
		select {
		case <-e.wake:
		case <-e.ctx.Done():
		}
	}
	return nil, nil
}

// rest waits for a time, or for another link than the last.
func (e *ear) rest(last *link, at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	for {
		select {
		case <-e.wake:
			e.node.mu.Lock()
			l := e.node.link
			e.node.mu.Unlock()
			if l != nil && l != last {
				return
			}
		case <-timer.C:
			return
		case <-e.ctx.Done():
			return
		}
	}
}

// longestPause bounds the pause after a failure.
func longestPause(err error) time.Duration {
	if errors.As(err, new(*ServerError)) {
		return deafPause
	}
	return maxPause
}
