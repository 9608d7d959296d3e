package redlock

import (
	"fmt"

	"github.com/quorumlock/quorumlock/internal/engine"
)

// Kind is what a lock keeps out.
type Kind string

// The kinds of locks.
const (
	KindExclusive Kind = "exclusive" // by default: it keeps out every other lock of the name
	KindShared    Kind = "shared"    // with Shared: it keeps out the other kinds
	KindSlot      Kind = "slot"      // with Slots: it keeps out the other kinds, and locks of its own when all slots are taken
)

// several reports whether several may have a lock of the kind at a time.
func (k Kind) several() bool { return k != "" && k != KindExclusive }

// Kind returns what the lock keeps out.
func (l *Lock) Kind() Kind { return Kind(l.held.First.Want.Kind.String()) }

// Shared takes a shared lock, as readers do with RLock of sync.RWMutex: any number may have it at a time, while nobody has the exclusive
// lock of the name, that of a writer. Without the option a call takes the exclusive lock.
//
// A reader waits behind the writers that were there before it: while one waits, only who has a shared lock already keeps it. If none waits,
// readers do not wait for each other. A call that does not wait has [ErrTaken] also while a writer waits ([nodeerr.ErrWanted]).
//
// Everything else holds for shared locks too: each has a token and a TTL of its own, and is extended, renewed, lost, detached and unlocked by
// itself. But it has no fencing token, [Lock.Fence] is 0: a resource that checks fences refuses a reader's write. It is not handed off
// ([WithLocalHandoff]).
//
// Who holds a lock of the name gets [ErrDeadlock]. With [Reentrant] a reader gets another handle on the lock that it holds, which stays
// exclusive if it was. A reader who calls for the exclusive lock gets ErrDeadlock also with Reentrant: two that wait for each other's shared
// lock to end would wait for ever.
//
// Readers of this name and clients of other libraries exclude each other, as the nodes hold a string under its key. The writers of such a
// client do not say that they wait, so that readers that overlap without a pause may keep them waiting.
//
// The option is [ErrInvalid] for several names, in Attach, and beside [Slots]. Write it in the call: in a slice of options that a writer
// uses too, it would make a reader of the writer.
func Shared() LockOption {
	return lockOption(func(r *request) { r.Kind, r.given = engine.KindShared, r.given|givenShared })
}

// Slots takes one of n slots of a name, as a semaphore does: at most n callers have one at a time, in all processes together. n is
// from 1 to 1024. A lock that has a slot is a lock as any other: with a token and a TTL of its own, it is extended, renewed, lost, detached and
// unlocked by itself, and the slot is free again when its TTL ends. But it has no fencing token, [Lock.Fence] is 0, and is not handed off
// ([WithLocalHandoff]). A node that has no slot to give has [nodeerr.ErrFull].
//
// The nodes do not keep n. If callers have different n, at most as many have a slot as the highest of these. An exclusive lock of the name
// waits until all slots are given back, and keeps everybody out meanwhile, as with [Shared]. Shared locks and slots of one name exclude
// each other and have no turns, so a name is for one of them.
//
// Callers that do not wait and try at the same instant may get slots of which no majority has the same one. Then a call tries again, up to
// four times in all, before it returns [ErrTaken].
//
// Who has a slot of the name gets [ErrDeadlock], or with [Reentrant] another handle on that lock. Who holds another lock of the name gets
// ErrDeadlock, also with Reentrant.
//
// The option is [ErrInvalid] for several names, in Attach, and beside [Shared].
func Slots(n int) LockOption {
	return lockOption(func(r *request) { r.Kind, r.slots, r.given = engine.KindSlot, n, r.given|givenSlots })
}

// kindOption returns the option that has set the kind.
func (r *request) kindOption() string {
	if r.given&givenSlots != 0 {
		return fmt.Sprintf("Slots(%d)", r.slots)
	}
	return "Shared"
}
