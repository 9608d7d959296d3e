package redlock

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/redlock/event"
)

const (
	maxEvents = 65_536      // that wait for the observer
	maxDrain  = time.Second // how long Close waits for it
)

// kinds are some kinds of events, a bit for each.
type kinds uint8

const (
	kindCalls kinds = 1 << iota
	kindEnds
	kindRounds
	kindVotes
	kindTurns
	kindNodes
	kindKeys
	allKinds = 1<<iota - 1
	// numbered are the kinds of events that have the number of a call.
	numbered = kindCalls | kindEnds | kindRounds | kindVotes
)

var kindsByName = map[event.Kind]kinds{
	event.Calls: kindCalls, event.Ends: kindEnds, event.Rounds: kindRounds, event.Votes: kindVotes, event.Turns: kindTurns,
	event.Nodes: kindNodes, event.Keys: kindKeys,
}

// kindOf returns the kind of an event: all of one that every observer is told, 0 of one for the log alone.
func kindOf(what event.Event) kinds {
	switch what.(type) {
	case event.Acquire, event.Extend, event.Unlock:
		return kindCalls
	case event.End:
		return kindEnds
	case event.Round, event.Raise:
		return kindRounds
	case event.Vote:
		return kindVotes
	case event.Turn:
		return kindTurns
	case event.NodeUp, event.NodeDown, event.Quarantine:
		return kindNodes
	case event.Stuck, event.Heal, event.ForceUnlock:
		return kindKeys
	case event.Drop:
		return allKinds
	}
	return 0
}

// observing is an Observer, and what it wants.
type observing struct {
	event.Observer
	kinds kinds
}

// audience are those to whom events are passed on.
type audience struct {
	observers []observing
	wanted    kinds // by any of them
	logger    *slog.Logger
}

// events passes what happens on to its audience. The goroutine that does so runs while there are events.
type events struct {
	*audience
	began time.Time

	mu      sync.Mutex
	waiting []event.Event
	spare   []event.Event // an empty slice for the next ones
	dropped int           // since maxEvents wait
	drained chan struct{} // closed when nothing waits; nil while no goroutine runs
}

// wants reports whether an observer wants any of some kinds. What is only for observers need not be put together otherwise.
func (a *audience) wants(k kinds) bool { return a.wanted&k != 0 }

// emit reports an event. It does not block, and takes no mutex but its own.
func (e *events) emit(what event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.emitLocked(what)
}

// endUnheard records the end of a call if nobody wants the event of it, which need not be put together then. Otherwise it returns false,
// and emitEnd records the end. What is reported of the call from then on is late.
func (e *events) endUnheard(c *observedCall) bool {
	if e.wants(kindCalls) {
		return false
	}
	if e.wants(kindRounds | kindVotes) {
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
func (e *events) emitVote(c *observedCall, what event.Vote) {
	e.mu.Lock()
	defer e.mu.Unlock()
	what.Call, what.Late = c.callID(), c != nil && c.over
	e.emitLocked(what)
}

// emitRound reports the outcome of a round of a call, which is nil if nobody wants its number.
func (e *events) emitRound(c *observedCall, what event.Round) {
	e.mu.Lock()
	defer e.mu.Unlock()
	what.Call, what.Late = c.callID(), c != nil && c.over
	e.emitLocked(what)
}

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

// deliver passes on events until there are none.
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

func (e *events) pass(what event.Event) {
	kind := kindOf(what)
	for _, o := range e.observers {
		if o.kinds&kind != 0 {
			o.Observe(what)
		}
	}
	e.log(what)
}

// drain waits until everything was passed on, but not for ever, nor when ctx has ended.
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

// observedCall is what events report of a call of the program, or of a renewal.
type observedCall struct {
	ctx    context.Context
	id     uint64
	start  time.Time
	rounds int       // of an acquire
	began  time.Time // the last of them
	over   bool      // its end was reported; under the mutex of the events
}

// callID returns the number that the events of the call share.
func (c *observedCall) callID() uint64 {
	if c == nil {
		return 0
	}
	return c.id
}

// logLine writes a line beside the calls, as the lines of events are.
func (e *events) logLine(level slog.Level, message string, args ...any) {
	e.emit(logOnly{at: time.Now(), level: level, message: message, args: args})
}
