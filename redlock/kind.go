package redlock

import (
	"fmt"

	"github.com/quorumlock/quorumlock/internal/engine"
)

// Kind is the kind of a lock.
type Kind string

// The kinds of locks. Locks of different kinds of one name keep each other out.
const (
	KindExclusive Kind = "exclusive" // the default
	KindShared    Kind = "shared"    // see Shared
	KindSlot      Kind = "slot"      // see Slots
)

// several reports whether a lock of the kind may have several holders at a time.
func (k Kind) several() bool { return k != "" && k != KindExclusive }

// Kind returns the kind of the lock.
func (l *Lock) Kind() Kind { return Kind(l.held.First.Want.Kind.String()) }

// Shared asks for a shared lock, for readers (RWMutex). Any number of readers may have it, while nobody has the
// exclusive lock of the name. A waiting writer keeps new readers out. A reader that asks for the exclusive lock gets
// [ErrDeadlock]. There is no fencing token.
func Shared() LockOption {
	return callOption{func(r *request) { r.Kind, r.given = engine.KindShared, r.given|givenShared }, "Shared"}
}

// Slots asks for one of n slots of a name (semaphore), n from 1 to 1024. A slot is free again when its TTL ends.
// Callers give the same n; otherwise the highest counts, because nodes do not keep n. A call for the exclusive lock
// waits for all slots, and keeps new callers out. There is no fencing token.
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
