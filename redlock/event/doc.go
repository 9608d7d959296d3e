// Package event has the events of which a Locker of package redlock notifies an [Observer]. A program gives a Locker an
// Observer with redlock.WithObserver, and names each [Kind] of events that it wants. If it names none, the Observer is
// notified of all events.
//
// The end of a call of the program is an [Acquire], an [Extend] or an [Unlock]. The rounds of the call come before it,
// each with a [Vote] per node and a [Round]; they have the same Call. The end of a lock that was acquired is an [End].
//
// # What programs may rely on
//
// [Acquire], [Extend], [Unlock], [End], [NodeUp], [NodeDown], [Quarantine], [Stuck], [Heal], [ForceUnlock] and [Drop]
// are about the calls of a program and the state of its nodes. They and their fields are stable: their meaning does not
// change within a major version. How many Rounds an Acquire takes, and the texts of errors, may change.
//
// [Vote], [Round], [Raise] and [Turn] show how the Locker and its nodes reach that. They follow the protocol: a minor
// version may make more or fewer of them, at other moments, and add values of [Op], [Answer] and Vote.Command. They are
// for metrics and displays, and no program should decide by them.
//
// New types of events, and new fields, may come with any minor version. So a switch has to ignore types that it does
// not know, and composite literals need the names of the fields.
package event
