// Package kind lists the kinds of locks that a run takes: how each is taken, and what has to be true of its history. A further kind
// is an entry of [All].
package kind

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/client"
	"github.com/quorumlock/quorumlock/redlock"
)

// brief is the pause of workers between turns, at most.
const brief = 20 * time.Millisecond

// heal is when a key without a TTL is deleted. Strangers hold theirs for less.
const heal = 2 * time.Second

// Kind is a kind of lock.
type Kind struct {
	client.Kind
	Rules     check.Rules // as far as they depend on the kind
	Wanted    []int       // how much each of the names of this kind is wanted
	Strangers bool        // other programs take the same names, which do not follow a node that fails over
	FailOver  bool        // it is for nodes that fail over alone
}

// All returns the kinds.
func All() []Kind {
	handoff := redlock.WithLocalHandoff(250 * time.Millisecond)
	some := []int{18, 9, 3, 3, 3, 3} // from one that several wait for to some that are mostly free
	return []Kind{
		{Wanted: some, Kind: client.Kind{Name: "plain", Pause: brief, Turn: lease{}.turn}},
		{Wanted: some, Kind: client.Kind{Name: "fenced", Pause: brief, Turn: lease{fenced: true}.turn, Options: options(redlock.WithFencing())},
			Rules: check.Rules{Fenced: true}},
		{Wanted: some, Kind: client.Kind{Name: "passed", Pause: brief, Turn: lease{}.turn, Options: options(handoff)},
			Rules: check.Rules{Handoff: true}},
		{Wanted: some, Kind: client.Kind{Name: "block", Pause: brief, Turn: lease{fenced: true}.turn, Options: options(handoff, redlock.WithFencing())},
			Rules: check.Rules{Handoff: true, Fenced: true}},
		{Wanted: some, Kind: client.Kind{Name: "several", Pause: brief, Turn: several{lease{fenced: true}}.turn, Options: options(redlock.WithFencing())},
			Rules: check.Rules{Fenced: true}},
		{Wanted: some, Kind: client.Kind{Name: "readers", Pause: brief, Turn: sharers{lease{fenced: true, read: true}}.turn, Options: options(redlock.WithFencing())},
			Rules: check.Rules{Fenced: true}},
		{Wanted: some, Kind: client.Kind{Name: "slots", Pause: brief, Turn: sharers{lease{fenced: true, slots: true}}.turn, Options: options(redlock.WithFencing())},
			Rules: check.Rules{Fenced: true}},
		{Wanted: slices.Repeat([]int{6}, 8), Kind: client.Kind{Name: "waited", Pause: brief, Turn: lease{patient: true}.turn}},
		{Wanted: slices.Repeat([]int{1}, 56), Kind: client.Kind{Name: "forced", Pause: brief, Turn: lease{forced: true}.turn}},
		{Wanted: slices.Repeat([]int{1}, 16), Kind: client.Kind{Name: "kept", Pause: brief, Turn: lease{kept: true}.turn}, FailOver: true},
		// Strangers also put data in the place of counters, so that the order of fences is not promised.
		{Wanted: some, Kind: client.Kind{Name: "shared", Pause: time.Second, Turn: lease{}.turn, Options: options(redlock.WithFencing(), redlock.WithHeal(heal))},
			Rules: check.Rules{Strangers: true, Heal: heal}, Strangers: true},
		// Few callers, which all wait: so much is known of how they get on.
		{Wanted: slices.Repeat([]int{1}, 4), Kind: client.Kind{Name: "jobs", Pause: brief, Workers: 5, Turn: jobs}},
		{Wanted: []int{1, 1}, Kind: client.Kind{Name: "crowd", Pause: brief, Workers: 5, Turn: crowd}},
	}
}

func options(o ...redlock.Option) []redlock.Option { return o }

// Of returns the kind of a lock.
func Of(kinds []Kind, name string) Kind {
	first, _, _ := strings.Cut(name, "-")
	for _, k := range kinds {
		if k.Name == first {
			return k
		}
	}
	panic("no kind of " + name)
}
