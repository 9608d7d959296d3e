package form

import (
	"slices"
	"strings"
)

// Kind is what a lock keeps out: a row of the table of kinds.
type Kind uint8

// The kinds.
const (
	KindExclusive Kind = iota // keeps out every other lock of the name
	KindShared                // keeps out the other kinds
	KindSlot                  // keeps out the other kinds, and locks of its own when all slots are taken
)

// kind is what the locks of one kind are like.
type kind struct {
	name string // for users
	// mark is what the key holds if several may have the lock at a time. If it is "", the key holds the token of the one who has it. No token
	// begins with |.
	mark  string
	slots bool // each lock has a slot of its own
}

var kinds = [...]kind{
	KindExclusive: {name: "exclusive"},
	KindShared:    {name: "shared", mark: "|shared"},
	KindSlot:      {name: "slot", mark: "|slots", slots: true},
}

// MaxSlots is how many slots a name may have.
const MaxSlots = 1024

// String returns the name of the kind.
func (k Kind) String() string { return kinds[k].name }

// Mark returns what the key holds while somebody has a lock of the kind. It is "" if the key holds a token.
func (k Kind) Mark() string { return kinds[k].mark }

// Several reports whether several may have a lock of the kind at a time.
func (k Kind) Several() bool { return kinds[k].mark != "" }

// HasSlots reports whether each lock of the kind has a slot of its own.
func (k Kind) HasSlots() bool { return kinds[k].slots }

// Covers reports whether who has a lock of the kind has what one of another kind would give.
func (k Kind) Covers(other Kind) bool {
	return k == other || !k.Several() && !other.HasSlots()
}

// IsMark reports whether a key holds a mark, or what says that a writer waits, in the place of a token.
func IsMark(token string) bool { return strings.HasPrefix(token, "|") }

// KindNamed returns the kind with a name: that of exclusive locks if there is none.
func KindNamed(name string) Kind {
	return kindWith(func(k kind) bool { return k.name == name })
}

// KindOf returns the kind of the locks of a key that holds a value.
func KindOf(value string) Kind {
	return kindWith(func(k kind) bool { return k.mark != "" && k.mark == value })
}

func kindWith(is func(kind) bool) Kind {
	return Kind(max(0, slices.IndexFunc(kinds[:], is))) //nolint:gosec // there are three, the first of which is KindExclusive
}
