// Package event has the events that a Locker of package redlock reports to an [Observer] (redlock.WithObserver), for
// metrics and traces.
//
// [Acquire], [Extend] and [Unlock] are the ends of calls, [End] is the end of a lock. Package event/protocol has the
// steps between.
//
// # What programs may rely on
//
// The events of this package and their fields keep their meaning within a major version. The number of rounds, and the
// texts of errors, may change. New types and fields may come with any minor version: a switch ignores types that it
// does not know, and composite literals name the fields. Package event/protocol promises nothing.
package event
