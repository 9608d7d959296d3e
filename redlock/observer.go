package redlock

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/journal"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

const (
	maxEvents = 65_536      // the number of events that may wait for the observers
	maxDrain  = time.Second // how long Close waits for the observers
)

// groups is a set of groups of events, with a bit for each.
type groups uint8

const (
	groupCalls groups = 1 << iota
	groupEnds
	groupRounds
	groupVotes
	groupTurns
	groupNodes
	groupKeys
	allGroups = 1<<iota - 1
	// numbered is the set of the groups whose events have the number of a call.
	numbered = groupCalls | groupEnds | groupRounds | groupVotes
)

var groupBits = map[event.Group]groups{
	event.Calls: groupCalls, event.Ends: groupEnds, event.Nodes: groupNodes, event.Keys: groupKeys,
	protocol.Rounds: groupRounds, protocol.Votes: groupVotes, protocol.Turns: groupTurns,
}

// groupOf returns the group of an event. It returns allGroups for an event that goes to every observer, and 0 for an
// event that goes only to the log.
func groupOf(what event.Event) groups {
	switch what.(type) {
	case event.Acquire, event.Extend, event.Unlock:
		return groupCalls
	case event.End:
		return groupEnds
	case protocol.Round, protocol.Raise:
		return groupRounds
	case protocol.Vote:
		return groupVotes
	case protocol.Turn:
		return groupTurns
	case event.NodeUp, event.NodeDown, event.Quarantine:
		return groupNodes
	case event.Stuck, event.Heal, event.ForceUnlock:
		return groupKeys
	case event.Drop:
		return allGroups
	}
	return 0
}

// observing is an Observer, with the groups of events that it wants.
type observing struct {
	event.Observer
	groups groups
}

// audience is the observers and the logger that events are passed to.
type audience struct {
	observers []observing
	wanted    groups // the groups that at least one of them wants
	logbook
}

// events passes events on to its audience. The goroutine that does so runs only while there are events.
type events struct {
	*audience
	began time.Time

	mu      sync.Mutex
	waiting []event.Event
	spare   []event.Event // an empty slice for the next events; nil if there is none
	dropped int           // the number of events dropped while maxEvents were waiting
	drained chan struct{} // closed when no event waits; nil while no goroutine runs
}

// wants reports whether an observer wants any of the groups. If none does, an event that is only for observers need not
// be made.
func (a *audience) wants(g groups) bool { return a.wanted&g != 0 }

// emit reports an event. It does not block, and takes no mutex but that of the events.
func (e *events) emit(what event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.emitLocked(what)
}

// endUnheard records the end of a call and returns true, if no observer wants the event of the end: it need not be
// made. Otherwise endUnheard returns false, and emitEnd records the end. All later events of the call are late.
func (e *events) endUnheard(c *observedCall) bool {
	if e.wants(groupCalls) {
		return false
	}
	if e.wants(groupRounds | groupVotes) {
		e.mu.Lock()
		defer e.mu.Unlock()
		c.over = true
	}
	return true
}

// emitEnd reports the end of a call.
func (e *events) emitEnd(c *observedCall, what event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.over = true
	e.emitLocked(what)
}

// emitVote reports a vote in a round of a call.
func (e *events) emitVote(c *observedCall, what protocol.Vote) {
	e.mu.Lock()
	defer e.mu.Unlock()
	what.Call, what.Late = c.callID(), c != nil && c.over
	e.emitLocked(what)
}

// emitRound reports the outcome of a round of a call. The call is nil if no observer wants its number.
func (e *events) emitRound(c *observedCall, what protocol.Round) {
	e.mu.Lock()
	defer e.mu.Unlock()
	what.Call, what.Late = c.callID(), c != nil && c.over
	e.emitLocked(what)
}

// emitLocked queues an event, and starts the goroutine that delivers events if it does not run. If too many events
// wait, it counts the event as dropped.
func (e *events) emitLocked(what event.Event) {
	if len(e.waiting) >= maxEvents {
		e.dropped++
		return
	}
	e.waiting = append(e.waiting, what)
	if e.drained == nil {
		e.drained = make(chan struct{})
		go e.deliver()
	}
}

// deliver passes events on until none waits.
func (e *events) deliver() {
	for {
		e.mu.Lock()
		if len(e.waiting) == 0 {
			close(e.drained)
			e.drained = nil
			e.mu.Unlock()
			return
		}
		batch, dropped := e.waiting, e.dropped
		e.waiting, e.spare, e.dropped = e.spare, nil, 0
		e.mu.Unlock()
		for _, what := range batch {
			e.pass(what)
		}
		if dropped > 0 {
			e.pass(event.Drop{Count: dropped})
		}
		clear(batch)
		e.mu.Lock()
		e.spare = batch[:0]
		e.mu.Unlock()
	}
}

// pass passes an event to each observer that wants it, and then to the log.
func (e *events) pass(what event.Event) {
	group := groupOf(what)
	for _, o := range e.observers {
		if o.groups&group != 0 {
			o.Observe(what)
		}
	}
	e.log(what)
}

// drain waits until all events were passed on. It waits for maxDrain at most, and not after the end of ctx.
func (e *events) drain(ctx context.Context) {
	e.mu.Lock()
	drained := e.drained
	e.mu.Unlock()
	if drained == nil {
		return
	}
	timeout := time.NewTimer(maxDrain)
	defer timeout.Stop()
	select {
	case <-drained:
	case <-timeout.C:
	case <-ctx.Done():
	}
}

// observedCall is a call of the program, or a renewal, as its events show it.
type observedCall struct {
	ctx    context.Context
	id     uint64
	start  time.Time
	rounds int       // the number of rounds that an acquire has begun
	began  time.Time // when the last of these rounds began
	over   bool      // the call has ended; under the mutex of the events
}

// callID returns the number that the events of the call share. It is 0 if c is nil.
func (c *observedCall) callID() uint64 {
	if c == nil {
		return 0
	}
	return c.id
}

// logLine logs a line that belongs to no event. The goroutine that passes on the events writes it.
// outage means that an outage may be the cause.
func (e *events) logLine(level slog.Level, outage bool, message string, args ...any) {
	if e.logs(level) {
		e.emit(logOnly{line: journal.Line{At: time.Now(), Level: level, Message: message, Args: args, Outage: outage}})
	}
}
