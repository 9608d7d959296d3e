// Package event has the events that a Locker of package redlock reports to an [Observer]. A program gives a Locker an
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
// [Vote], [Round], [Raise] and [Turn] show the steps of the protocol between the Locker and its nodes. A minor version
// may report more or fewer of them, at other moments. It may also add values of [Op], [Answer] and Vote.Command. These
// events are for metrics and displays, and no program should base a decision on them.
//
// New types of events, and new fields, may come with any minor version. So a switch has to ignore types that it does
// not know, and composite literals need the names of the fields.
package event
