package pool

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// invalidations is the channel on which a server tells what has changed, see
// https://redis.io/docs/latest/develop/reference/client-side-caching/
const invalidations = "__redis__:invalidate"

// session is one connection of the ear. But for receive, it is the keeper's alone.
type session struct {
	ear      *ear
	link     *link
	got      chan heard
	over     chan struct{} // closed when nobody takes from got any more
	received chan struct{} // closed when receive has ended

	requests []request // not answered yet, in the order in which they are answered
	channels map[string]channelState
	changes  int     // of the listeners, when they were looked at
	renew    backoff // of the subscriptions that were refused
	retrack  backoff
	tried    *link // the link that tracking was asked for last
	told     int   // the tracking that was in force last
	pingAt   time.Time
	due      time.Time // when there is something to do, if nothing happens
}

// heard is what a receive has returned.
type heard struct {
	value any
	err   error
}

// request is a command of the ear that the server has to answer.
type request struct {
	verb, channel string
	due           time.Time
}

type channelState uint8

const (
	asked channelState = iota + 1
	subscribed
	refused
)

// hear runs a connection of the ear until it ends, or is of no more use.
func (e *ear) hear(l *link) {
	s := &session{
		ear: e, link: l,
		got: make(chan heard), over: make(chan struct{}), received: make(chan struct{}),
		channels: map[string]channelState{}, changes: -1,
		pingAt: time.Now().Add(pingEvery),
	}
	go s.receive()
	defer s.end()
	timer := time.NewTimer(pingEvery)
	defer timer.Stop()
	for s.attend() {
		timer.Reset(time.Until(s.due))
		select {
		case h := <-s.got:
			if !s.take(h) {
				return
			}
		case <-e.wake:
		case <-timer.C:
		case <-e.ctx.Done():
			return
		}
	}
}

// receive hands on what the server says, until the connection breaks.
func (s *session) receive() {
	defer close(s.received)
	for {
		value, err := redis.ReceiveWithTimeout(s.link.conn, 0)
		select {
		case s.got <- heard{value, err}:
		case <-s.over:
			return
		}
		if isFatal(err) {
			return
		}
	}
}

// end tells that the ear is deaf, and closes the connection. It is broken first: its
// pool would end the subscriptions and wait for the answers, of a server that may be dead.
func (s *session) end() {
	e, n := s.ear, s.ear.node
	n.mu.Lock()
	e.asked, e.failed, e.tracking = nil, nil, 0
	n.mu.Unlock()
	e.report()
	s.link.wire.cut()
	close(s.over)
	<-s.received
	s.link.cutting.Wait()
	_ = s.link.conn.Close()
}

// attend does what is due. It returns false if the connection is to be given up.
func (s *session) attend() bool {
	now := time.Now()
	if len(s.requests) > 0 && !now.Before(s.requests[0].due) {
		return false // the other end is dead, or as good as dead
	}
	s.due = now.Add(pingEvery)
	if !s.subscribe(now) || !s.track(now) {
		return false
	}
	s.ear.report()
	if !now.Before(s.pingAt) {
		s.pingAt = now.Add(pingEvery)
		if !s.ask(now, "PING", "") {
			return false
		}
	}
	s.dueAt(s.pingAt)
	if len(s.requests) > 0 {
		s.dueAt(s.requests[0].due)
	}
	return true
}

func (s *session) dueAt(at time.Time) {
	if at.Before(s.due) {
		s.due = at
	}
}

// ask sends one command. A write that hangs is cut off.
func (s *session) ask(now time.Time, verb, channel string) bool {
	patience := s.ear.node.opts.timeout + s.ear.node.opts.maxOverdue
	s.requests = append(s.requests, request{verb, channel, now.Add(patience)})
	ctx, cancel := context.WithTimeout(s.ear.ctx, patience)
	defer cancel()
	defer s.link.cutWith(ctx)()
	var args []any
	if channel != "" {
		args = append(args, channel)
	}
	return s.link.conn.Send(verb, args...) == nil && s.link.conn.Flush() == nil
}

// subscribe makes the subscriptions those that the listeners want, each by a command of
// its own: the server may refuse one and permit another.
func (s *session) subscribe(now time.Time) bool {
	n := s.ear.node
	n.mu.Lock()
	listeners, changes := s.ear.listeners, s.ear.changes
	n.mu.Unlock()
	if changes != s.changes {
		s.changes = changes
		wanted := map[string]bool{invalidations: true}
		for _, x := range listeners {
			wanted[x.channel] = x.channel != ""
		}
		for channel := range s.channels {
			if !wanted[channel] {
				delete(s.channels, channel)
				if !s.ask(now, "UNSUBSCRIBE", channel) {
					return false
				}
			}
		}
		for channel, is := range wanted {
			if is && s.channels[channel] == 0 && !s.join(now, channel) {
				return false
			}
		}
	}
	for channel, state := range s.channels {
		switch {
		case state != refused:
		case now.Before(s.renew.at):
			s.dueAt(s.renew.at)
		case !s.join(now, channel):
			return false
		}
	}
	return true
}

func (s *session) join(now time.Time, channel string) bool {
	s.channels[channel] = asked
	return s.ask(now, "SUBSCRIBE", channel)
}

// take deals with what the server has said. It returns false at the end of the connection,
// and where that was nothing that a server says to an ear.
func (s *session) take(h heard) bool {
	now := time.Now()
	if isFatal(h.err) {
		return false
	}
	s.pingAt = now.Add(pingEvery)
	if h.err != nil {
		return s.refusal(now)
	}
	parts, _ := h.value.([]any)
	if h.value == "PONG" { // from a server that has refused every subscription
		return s.answered("PING", "")
	}
	if len(parts) < 2 {
		return false
	}
	kind, _ := redis.String(parts[0], nil)
	channel, _ := redis.String(parts[1], nil)
	switch {
	case kind == "message" && len(parts) == 3:
		s.message(channel, parts[2])
		return true
	case kind == "pong":
		return s.answered("PING", "")
	case kind == "unsubscribe":
		return s.answered("UNSUBSCRIBE", channel)
	case kind == "subscribe":
		if s.channels[channel] == asked {
			s.channels[channel] = subscribed
		}
		return s.answered("SUBSCRIBE", channel)
	}
	return false
}

// answered takes the oldest request off. It returns false if that was another.
func (s *session) answered(verb, channel string) bool {
	if len(s.requests) == 0 || s.requests[0].verb != verb || s.requests[0].channel != channel {
		return false
	}
	s.requests = s.requests[1:]
	return true
}

// refusal takes note of an error in answer to the oldest request.
func (s *session) refusal(now time.Time) bool {
	if len(s.requests) == 0 {
		return false
	}
	channel := s.requests[0].channel
	s.requests = s.requests[1:]
	if s.channels[channel] == asked {
		s.channels[channel] = refused
		if !now.Before(s.renew.at) { // else another was refused with it
			s.renew.later(now, deafPause)
		}
	}
	return true
}

// message hands on what came on a channel.
func (s *session) message(channel string, payload any) {
	text, isText := payload.([]byte)
	switch keys, _ := payload.([]any); {
	case channel != invalidations:
		s.ear.published(channel, string(text))
	case payload == nil:
		s.ear.flushed()
	case !isText: // text was published by somebody else
		for _, key := range keys {
			if name, ok := key.([]byte); ok {
				s.ear.changed(string(name))
			}
		}
	}
}
