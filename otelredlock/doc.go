// Package otelredlock makes OpenTelemetry traces and metrics of what package redlock does: an [Observer] observes Lockers.
//
//	observer, err := otelredlock.New()
//	...
//	locker, err := redlock.Open(urls, redlock.WithObserver(observer))
//
// Without kinds of events, as here, WithObserver tells the Observer of all. A program that wants fewer events names the others.
// event.Calls and event.Ends have to be among them, since the Observer keeps what belongs to a call, or to a held lock, until its
// end. Without event.Votes, the most events, there are no spans of commands and no redlock.node.duration; without event.Rounds no
// span events of rounds and fences, and no metrics of them; without event.Turns, event.Nodes and event.Keys no metrics of these.
//
// Without options it takes the global providers. It imports the API of OpenTelemetry alone: the program chooses the SDK.
//
// # Traces
//
// Each call is a span, a child of the span in the context that the call was given: "redlock acquire" (Lock, TryLock, Do, TryDo),
// "redlock attach", "redlock extend" and "redlock unlock". The commands that it sent to the nodes are children of it, such as
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
