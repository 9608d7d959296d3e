package form

import (
	"slices"
	"strings"
)

// Kind is the kind of a lock, which decides which other locks it keeps out. It is a row of the table of kinds. Beside
// its row, a kind has an alias in package engine, an option and a public name in redlock/kind.go, a metric label in
// package outcome, and a noun in the tool.
type Kind uint8

// The kinds.
const (
	KindExclusive Kind = iota // keeps out every other lock of the name
	KindShared                // keeps out the other kinds
	KindSlot                  // keeps out the other kinds, and further slots when all are taken
)

// kind is the description of the locks of one kind.
type kind struct {
	name string // the name that users see
	// mark is the value that the key holds if several holders may have the lock at a time. If it is "", the key holds the
	// token of the holder. No token begins with |.
	mark  string
	slots bool // each lock has a slot of its own
}

var kinds = [...]kind{
	KindExclusive: {name: "exclusive"},
	KindShared:    {name: "shared", mark: "|shared"},
	KindSlot:      {name: "slot", mark: "|slots", slots: true},
}

// MaxSlots is how many slots a name may have, at most.
const MaxSlots = 1024

// String returns the name of the kind.
func (k Kind) String() string { return kinds[k].name }

// Mark returns the mark that the key holds while there is a lock of the kind. It is "" if the key holds a token.
func (k Kind) Mark() string { return kinds[k].mark }

// Several reports whether several holders may have a lock of the kind at a time.
func (k Kind) Several() bool { return kinds[k].mark != "" }

// HasSlots reports whether each lock of the kind has a slot of its own.
func (k Kind) HasSlots() bool { return kinds[k].slots }

// Covers reports whether a lock of the kind gives its holder all that a lock of the other kind would give.
func (k Kind) Covers(other Kind) bool {
	return k == other || !k.Several() && !other.HasSlots()
}

// IsMark reports whether a value is a mark, or the one that an observation shows if another process comes first. Such a
// value is no token.
func IsMark(token string) bool { return strings.HasPrefix(token, "|") }

// IsWanted reports whether a value is the one that an observation shows if another process comes first.
func IsWanted(token string) bool { return token == wanted }

// KindNamed returns the kind with a name, or KindExclusive if no kind has it.
func KindNamed(name string) Kind {
	return kindWith(func(k kind) bool { return k.name == name })
}

// KindOf returns the kind of the locks of a key that holds a value. It is KindExclusive unless the value is a mark.
func KindOf(value string) Kind {
	return kindWith(func(k kind) bool { return k.mark != "" && k.mark == value })
}

func kindWith(is func(kind) bool) Kind {
	return Kind(max(0, slices.IndexFunc(kinds[:], is))) //nolint:gosec // there are three, and KindExclusive is the first
}
