package redlock

import (
	"fmt"

	"github.com/quorumlock/quorumlock/internal/engine"
)

// Kind is the kind of a lock: which other locks of the name it keeps out.
type Kind string

// The kinds of locks.
const (
	KindExclusive Kind = "exclusive" // the default: it keeps out every other lock of the name
	KindShared    Kind = "shared"    // with Shared: it keeps out the other kinds
	KindSlot      Kind = "slot"      // with Slots: it keeps out the other kinds, and its own when all slots are taken
)

// several reports whether a lock of the kind may have several holders at a time.
func (k Kind) several() bool { return k != "" && k != KindExclusive }

// Kind returns the kind of the lock.
func (l *Lock) Kind() Kind { return Kind(l.held.First.Want.Kind.String()) }

// Shared asks for a shared lock, like RLock of sync.RWMutex for a reader. Any number of readers may have it at a time,
// while no writer has the exclusive lock of the name. A call without the option asks for the exclusive lock.
//
// A reader waits behind the writers that came before it. While a writer waits, nobody else gets a shared lock, and the
// readers that already have one keep it. A reader does not wait behind further writers when it has seen eight of them,
// or when its process has the turn. If no writer waits, readers do not wait for each other. A call that does not wait
// returns [ErrTaken] also while a writer waits ([nodeerr.ErrWanted]).
//
// Everything else is the same for shared locks. Each has a token and a TTL of its own, and is extended, renewed, lost,
// detached and unlocked by itself. But it has no fencing token, so [Lock.Fence] is 0: a resource that checks fences
// refuses a reader's write. It is not handed off ([WithLocalHandoff]).
//
// A caller that already holds a lock of the name gets [ErrDeadlock]. With [Reentrant] a reader gets another handle on
// the shared or exclusive lock that it holds, which keeps its kind. A reader that asks for the exclusive lock gets
// ErrDeadlock also with Reentrant. Otherwise two readers could wait for ever for the end of each other's shared lock.
//
// Readers of this name and clients of other libraries exclude each other, because the nodes hold a string under its
// key. Such a client does not announce that it waits. So readers that overlap without a pause may keep it waiting.
//
// The option is [ErrInvalid] for several names, in Attach, and beside [Slots]. Write it in the call: in a slice of
// options that a writer uses too, it would turn the writer into a reader.
func Shared() LockOption {
	return callOption{func(r *request) { r.Kind, r.given = engine.KindShared, r.given|givenShared }, "Shared"}
}

// Slots asks for one of n slots of a name, like a semaphore. At most n callers have a slot at a time, in all processes
// together. n is from 1 to 1024. A lock that has a slot is a lock like any other. It has a token and a TTL of its own,
// and is extended, renewed, lost, detached and unlocked by itself. The slot is free again when its TTL ends. But such a
// lock has no fencing token, so [Lock.Fence] is 0, and it is not handed off ([WithLocalHandoff]). A node that has no
// slot to give has [nodeerr.ErrFull].
//
// The nodes do not keep n. If callers give different n, at most as many of them have a slot as the highest n. A call
// with a lower n may find that more callers have a slot. From then on, no node gives a slot beyond the lower n while
// such calls of its process wait. A call for the exclusive lock of the name waits until all slots are given back, and
// keeps everybody out meanwhile, as with [Shared]. Shared locks and slots of one name exclude each other, and a call
// that waits for one kind keeps further callers of the other kind out.
//
// Callers that do not wait and try at the same instant may get different slots, so that no slot has a majority. Then a
// call repeats its round, as [Locker.TryLock] says, before it returns [ErrTaken].
//
// A caller that already has a slot of the name gets [ErrDeadlock], or with [Reentrant] another handle on its lock. A
// caller that holds another lock of the name gets ErrDeadlock, also with Reentrant.
//
// The option is [ErrInvalid] for several names, in Attach, and beside [Shared].
func Slots(n int) LockOption {
	return callOption{func(r *request) { r.Kind, r.slots, r.given = engine.KindSlot, n, r.given|givenSlots }, "Slots"}
}

// kindOption returns the option that has set the kind, as text.
func (r *request) kindOption() string {
	if r.given&givenSlots != 0 {
		return fmt.Sprintf("Slots(%d)", r.slots)
	}
	return "Shared"
}
