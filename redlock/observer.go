package redlock

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Op is an operation on a lock, as errors, logs and observers name it.
type Op string

// The operations. Rounds are acquires, extends and unlocks.
const (
	OpAcquire     Op = "acquire"
	OpDo          Op = "do"
	OpExtend      Op = "extend"
	OpUnlock      Op = "unlock"
	OpAttach      Op = "attach"
	OpDetach      Op = "detach"
	OpInspect     Op = "inspect"
	OpForceUnlock Op = "force unlock"
	OpPing        Op = "ping"
)

// Answer is what one node answered. Its String is "yes", "no", "recreated", "unknown", "refused" or "unsent".
type Answer = quorum.Answer

// The answers. Only AnswerYes counts for the lock.
const (
	AnswerYes       = quorum.Yes
	AnswerNo        = quorum.No        // another token holds the key, or (extend, unlock) the key does not exist
	AnswerRecreated = quorum.Recreated // extend: the key did not exist and was re-created
	AnswerUnknown   = quorum.Unknown   // no answer that makes sense: it may have been done or not
	AnswerRefused   = quorum.Refused   // the server answered with an error
	AnswerUnsent    = quorum.Unsent    // the command never went out
)

// Observer is notified of what happens, for metrics, traces and displays. See [WithObserver].
//
// Observe is called for one event after the other, in the order in which they happened, from a goroutine beside the calls of
// the Locker: an Observer that is slow, or blocks, holds up no lock. At least 65,536 events wait for it meanwhile; those that come
// after them are dropped, which a [DropEvent] reports. Locker.Close waits until the Observer has had all events, but not
// longer than a second for one that blocks, or that calls Close itself; an Unlock after Close is still observed, and so is what a function of Do needs
// after Close. An Observer may
// call the Locker. It must not panic, nor end its goroutine. Several
// Lockers may share an Observer; each calls it from a goroutine of its own.
type Observer interface {
	Observe(Event)
}

// ObserverFunc is a function as an Observer.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }

const (
	maxEvents = 65_536      // that wait for the observer
	maxDrain  = time.Second // how long Close waits for it
)

// events passes what happens on to the observer and to the log. The goroutine that does so runs while there are events.
type events struct {
	observers []Observer
	logger    *slog.Logger

	mu      sync.Mutex
	waiting []Event
	spare   []Event       // an empty slice for the next ones
	dropped int           // since maxEvents wait
	drained chan struct{} // closed when nothing waits any more; nil while no goroutine runs
}

// observed reports whether there is an observer. What is only for it need not be put together otherwise.
func (e *events) observed() bool { return len(e.observers) > 0 }

// logs reports whether what is logged at a level is wanted.
func (e *events) logs(level slog.Level) bool { return e.logger.Enabled(context.Background(), level) }

// emit reports an event. It does not block, and takes no mutex but its own.
func (e *events) emit(event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.emitLocked(event)
}

// emitEnd reports the end of a call. What is reported of the call from then on is late.
func (e *events) emitEnd(c *call, event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.over = true
	e.emitLocked(event)
}

// emitVote reports a vote in a round of a call.
func (e *events) emitVote(c *call, event VoteEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	event.Call, event.Late = c.number(), c.late()
	e.emitLocked(event)
}

// emitVerdict reports the verdict of a round of a call, which is nil if nobody observes.
func (e *events) emitVerdict(c *call, event VerdictEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	event.Call, event.Late = c.number(), c.late()
	e.emitLocked(event)
}

func (e *events) emitLocked(event Event) {
	if len(e.waiting) >= maxEvents {
		e.dropped++
		return
	}
	e.waiting = append(e.waiting, event)
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
		for _, event := range batch {
			e.pass(event)
		}
		if dropped > 0 {
			e.pass(DropEvent{Count: dropped})
		}
		clear(batch)
		e.mu.Lock()
		e.spare = batch[:0]
		e.mu.Unlock()
	}
}

func (e *events) pass(event Event) {
	if _, logOnly := event.(blockedEvent); !logOnly {
		for _, o := range e.observers {
			o.Observe(event)
		}
	}
	e.log(event)
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
