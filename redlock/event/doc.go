// Package event has the events that a Locker of package redlock reports to an [Observer]. A program gives a Locker an
// Observer with redlock.WithObserver, and names each [Group] of events that it wants.
//
// The end of a call of the program is an [Acquire], an [Extend] or an [Unlock]. The end of a lock that was acquired is
// an [End]. Package event/protocol has the steps between the Locker and its nodes: the rounds of a call come before its
// end, and have the same Call.
//
// # What programs may rely on
//
// The events of this package are about the calls of a program and the state of its nodes. They and their fields are
// stable: their meaning does not change within a major version. How many rounds an Acquire takes, and the texts of
// errors, may change. The events of package event/protocol promise nothing.
//
// New types of events, and new fields, may come with any minor version. So a switch has to ignore types that it does
// not know, and composite literals need the names of the fields.
package event
