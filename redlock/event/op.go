package event

import "fmt"

// Op is the operation on a lock that an event is about.
type Op string

// The operations of events. Rounds are acquires, extends and unlocks.
const (
	OpAcquire Op = "acquire" // Lock, TryLock, Do and TryDo
	OpExtend  Op = "extend"  // Extend and renewals
	OpUnlock  Op = "unlock"  // Unlock, and the release at the end of Do
	OpAttach  Op = "attach"  // Attach, which has no rounds
)

// Answer is what one node answered. The zero value is none.
type Answer uint8

// The answers. Only AnswerYes counts for the lock.
const (
	AnswerYes       Answer = iota + 1 // the node has done it
	AnswerNo                          // another token holds the key, or (extend, unlock) the key does not exist
	AnswerRecreated                   // extend: the key did not exist and was re-created
	AnswerUnknown                     // no answer that makes sense: it may have been done or not
	AnswerRefused                     // the server answered with an error
	AnswerUnsent                      // the command never went out
)

// String returns "yes", "no", "recreated", "unknown", "refused" or "unsent".
func (a Answer) String() string {
	names := [...]string{
		AnswerYes: "yes", AnswerNo: "no", AnswerRecreated: "recreated",
		AnswerUnknown: "unknown", AnswerRefused: "refused", AnswerUnsent: "unsent",
	}
	if a > 0 && int(a) < len(names) {
		return names[a]
	}
	return fmt.Sprintf("Answer(%d)", uint8(a))
}
