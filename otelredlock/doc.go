// Package otelredlock makes OpenTelemetry traces and metrics of what package redlock does: an [Observer] observes Lockers.
//
//	observer, err := otelredlock.New()
//	...
//	locker, err := redlock.Open(urls, redlock.WithObserver(observer))
//
// Without groups of events, as here, the Observer is notified of all. A program that wants fewer events names the others.
// event.Calls and event.Ends have to be among them, since the Observer keeps what belongs to a call, or to a held lock, until its
// end. It keeps 131,072 calls and as many locks: with one call more it forgets those before, and with one lock more all calls and
// locks, so that spans are incomplete and redlock.lock.held is too low. It comes to that without these groups, or if a program holds
// so many locks. Each span and metric needs some groups:
//   - event.Calls: the spans of calls, "redlock wait", the metrics redlock.acquire.* and redlock.extend.*, redlock.renewal.margin,
//     redlock.unlock.duration and redlock.handoffs;
//   - event.Ends: the span "redlock hold", redlock.lock.hold.duration and redlock.lock.losses; with event.Calls, the link of the span
//     to its acquire, and its renewals;
//   - event.Calls and event.Ends together: redlock.lock.held. With Calls alone it rises to the bound, falls to 0 and rises again;
//   - protocol.Rounds: the metrics redlock.round.* and redlock.fence.raises; with event.Calls, the span events of rounds and fences;
//   - protocol.Votes, the most events: redlock.node.duration; with event.Calls, the spans of commands and the span events of answers;
//   - protocol.Turns: redlock.turns;
//   - event.Nodes: the other metrics redlock.node.*;
//   - event.Keys: redlock.stuck_keys, redlock.healed_keys and redlock.forced_unlocks.
//
// redlock.observer.dropped needs none.
//
// Without options it takes the global providers. It imports the API of OpenTelemetry alone: the program chooses the SDK.
//
// # Traces
//
// Each call is a span, a child of the span in the context that the call was given: "redlock acquire" (Lock, TryLock, Do,
// TryDo), "redlock attach", "redlock extend" and "redlock unlock". The commands that it sent to the nodes are children of it, such as
// "SET 10.0.0.1:6379", in the form of the semantic conventions for Redis, and the verdicts of its rounds are span events. The
// wait for other holders is a child of it too, "redlock wait". A lock that ends is a span "redlock hold", from its
// acquire to its end, with its renewals as span events; it is linked to the span of the acquire, as are extends and unlocks.
// Spans are made when what they show has ended, so that a lock that is held has no span "redlock hold" yet.
//
// # Metrics
//
// The names of the metrics begin with redlock. and are those of package promredlock in the form of OpenTelemetry.
//
// docs/tracing.md lists the spans, metrics and attributes. Neither has tokens, nor, without [WithNameAttribute], names of locks.
package otelredlock
