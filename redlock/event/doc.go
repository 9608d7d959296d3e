// Package event has the events of which a Locker of package redlock notifies an [Observer]. A program gives a Locker an Observer with
// redlock.WithObserver, and names each [Kind] of events that it wants; if it names none, the Observer is notified of all.
//
// A call of the program is an [Acquire], [Extend] or [Unlock] at its end. The rounds that it took come before, each with a
// [Vote] per node and a [Round]; they have the same Call. A lock that was acquired ends with an [End].
//
// # What programs may rely on
//
// [Acquire], [Extend], [Unlock], [End], [NodeUp], [NodeDown], [Quarantine], [Stuck], [Heal], [ForceUnlock] and [Drop] are about
// what a program does and what its nodes do. They and their fields are stable: their meaning does not change within a major
// version. How many Rounds an Acquire takes, and the texts of errors, may change.
//
// [Vote], [Round], [Raise] and [Turn] are about how the Locker and its nodes come to that. They follow the protocol: a minor
// version may make more or fewer of them, at other moments, and add values of [Op], [Answer] and Vote.Command. They are for
// metrics and displays, and no program should decide by them.
//
// New types of events, and new fields, may come with any minor version. So a switch has to pass over types that it does not
// know, and composite literals need the names of the fields.
package event
