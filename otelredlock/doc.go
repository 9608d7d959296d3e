// Package otelredlock makes OpenTelemetry traces and metrics of the events of package redlock. An [Observer] observes
// Lockers.
//
//	observer, err := otelredlock.New() // takes the providers of otel.SetTracerProvider and otel.SetMeterProvider
//	...
//	locker, err := redlock.Open(urls, redlock.WithObserver(observer))
//
// Without options it takes the global providers. It imports the API of OpenTelemetry alone: the program chooses the SDK.
//
// Without groups of events, as here, the Observer receives all of them. A program that wants fewer events names groups.
// event.Calls and event.Ends must be among them. Each span and metric needs some groups:
//   - event.Calls: the spans of calls, "redlock wait", the metrics redlock.acquire.* and redlock.extend.*,
//     redlock.renewal.margin, redlock.unlock.duration and redlock.handoffs;
//   - event.Ends: the span "redlock hold", redlock.lock.hold.duration and redlock.lock.losses; with event.Calls, the link
//     of the span to its acquire, and its renewals;
//   - event.Calls and event.Ends together: redlock.lock.held. With Calls alone it rises to the bound, falls to 0 and
//     rises again;
//   - protocol.Rounds: the metrics redlock.round.* and redlock.fence.raises; with event.Calls, the span events of rounds
//     and fences;
//   - protocol.Votes, the most events: redlock.node.duration; with event.Calls, the spans of commands and the span events
//     of answers;
//   - protocol.Turns: redlock.turns;
//   - event.Nodes: the other metrics redlock.node.*;
//   - event.Keys: redlock.stuck_keys, redlock.healed_keys and redlock.forced_unlocks;
//   - none: redlock.observer.dropped.
//
// The Observer keeps the events of a call, or of a held lock, until its end: of 131,072 calls and as many locks. With one
// call more it forgets the calls before. With one lock more it forgets all calls and locks: spans are then incomplete,
// and redlock.lock.held is too low. Programs reach the bound with so large a number of held locks, or without
// event.Calls or event.Ends.
//
// # Traces
//
// Each call is a span, a child of the span in the context of the call: "redlock acquire" (Lock, TryLock, Do, TryDo),
// "redlock attach", "redlock extend" and "redlock unlock". Its children are the commands to the nodes, such as
// "SET 10.0.0.1:6379", in the form of the semantic conventions for Redis, and "redlock wait", the wait for other
// holders. The verdicts of its rounds are span events.
//
// A lock that ends is a span "redlock hold", from its acquire to its end, with its renewals as span events. This span,
// extends and unlocks are linked to the span of the acquire. Spans are made when their operation has ended: a lock that
// is held has no span "redlock hold" yet.
//
// # Metrics
//
// The metrics are those of package promredlock in the form of OpenTelemetry. Their names begin with "redlock.".
//
// https://github.com/quorumlock/quorumlock/blob/main/docs/tracing.md lists the spans, metrics and attributes. None has
// tokens. None has names of locks without [WithNameAttribute].
package otelredlock
