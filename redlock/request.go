package redlock

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/quorumlock/quorumlock/internal/engine"
)

const maxMetadataBytes = 256

// NoLimit is a duration without end. As [MaxWait], [MaxOutage] and [MaxHold] it undoes the Locker's default for one lock. As the TTL
// in a [LockState] it is that of a key that never expires.
const NoLimit time.Duration = math.MaxInt64

const _ = uint64(NoLimit-engine.NoLimit) + uint64(engine.NoLimit-NoLimit) // or it does not compile: they are equal

// LockOption changes one lock. A call returns [ErrInvalid] for an option that is out of range, or that it has no use for.
type LockOption interface{ applyLock(*request) }

type lockOption func(*request)

func (f lockOption) applyLock(r *request) { f(r) }

// given are options that the call itself was given, and has not from its Locker.
type given uint8

const (
	givenGrace given = 1 << iota
	givenMaxHold
	givenMaxWait
	givenMaxOutage
	givenMetadata
	givenTokenSource
	givenOwner
)

// request is what one call asks for. The Locker has one with its defaults.
type request struct {
	name string
	key  string
	engine.Want
	metadata  string
	maxWait   time.Duration
	maxOutage time.Duration
	reentrant bool
	given     given
	owner     string
	source    func() (string, error) // nil means random tokens
	token     string                 // that source has made for the next round
	block     uint64                 // how many fencing tokens the round asks for; 0 means one
	call      *call                  // nil if nobody wants its number
}

// checkText refuses text that Redis accepts in a key but that is a mistake: too long, or with control characters.
func checkText(what, text string) error {
	if len(text) > engine.MaxName {
		return invalid("the %s %.32q... has %d bytes: at most %d, since every command carries it", what, text, len(text), engine.MaxName)
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return invalid("the %s %q has the control character %q at byte %d: logs and tools would show another name", what, text, r, i)
		}
	}
	return nil
}

// nextToken asks the source of the call, if it has one, for the token of the round that is next.
func (r *request) nextToken() error {
	if r.source == nil {
		return nil
	}
	made, err := r.source()
	switch {
	case err != nil:
		return fmt.Errorf("TokenSource: %w", err)
	case made == "":
		return invalid("TokenSource: an empty token")
	case strings.Contains(made, "|"):
		return invalid("TokenSource: the token %.64q must not contain |, which separates the fencing token", made)
	case made == r.token:
		return invalid("TokenSource: the token %.64q was that of the round before", made)
	}
	r.token = made
	return checkText("token", made)
}
