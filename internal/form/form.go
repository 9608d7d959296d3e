// Package form is what a lock is on a server: the commands that take, extend, release and observe it, the Lua scripts that servers run
// for them, and what servers answer.
package form

import (
	"fmt"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Observe reads what key holds and its TTL, see [wire.Reply]. It is tracked.
func Observe(key string) *wire.Command {
	c := &wire.Command{Script: observeScript, Key: key, Parse: parseObserve, BySource: true, Tracked: true}
	return c.With()
}

// ObserveMaster is Observe of a server that has to be a master: a replica, which holds what another node does, answers with
// the error of code READONLY. It is not tracked. A server whose user may not use INFO counts as a master.
func ObserveMaster(key string) *wire.Command {
	c := &wire.Command{Script: observeScript, Key: key, Parse: parseObserve, BySource: true}
	return c.With("master")
}

// Heal deletes key if it holds value and has no TTL.
func Heal(key, value string) *wire.Command {
	c := &wire.Command{Script: healScript, Key: key, Token: value, Parse: parseCode, Changes: true}
	return c.With(value)
}

// Probe asks for what an acquire asks, and sets nothing: the server would set the key only if it were there, and nothing has it, since
// it ends with an id that nobody else has. The answer is Yes if the server would grant a lock. Like an acquire it is not sent to a
// server in quarantine.
func Probe(prefix, id string) *wire.Command {
	c := &wire.Command{Parse: parseProbe, Votes: true}
	return c.With("SET", prefix+"\x00ping:"+id, "x", "XX", "PX", "1")
}

func parseProbe(v *wire.Value) wire.Reply {
	if v.Kind != '_' {
		return wire.Unexpected(v)
	}
	return wire.Reply{Answer: quorum.Yes}
}

// parseObserve parses what observe.lua returns.
func parseObserve(v *wire.Value) wire.Reply {
	if v.Kind == '_' {
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrAbsent}
	}
	if v.Kind != '*' || len(v.Items) != 2 || !v.Items[0].IsText() || v.Items[1].Kind != ':' || v.Items[1].Num < -1 {
		return wire.Unexpected(v)
	}
	if len(v.Items[0].Text) > wire.MaxToken {
		return wire.Reply{Answer: quorum.Refused, Err: errTooLong}
	}
	return wire.Reply{Answer: quorum.Yes, Value: string(v.Items[0].Text), TTL: wire.TTL(v.Items[1].Num)}
}

// parseCode parses the number that most scripts return.
func parseCode(v *wire.Value) wire.Reply {
	switch {
	case v.Kind != ':':
	case v.Num == 1:
		return wire.Reply{Answer: quorum.Yes}
	case v.Num == 0:
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrAbsent}
	case v.Num == -1:
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrHeld}
	}
	return wire.Unexpected(v)
}

// parseRelease parses what the scripts that release return.
func parseRelease(v *wire.Value) wire.Reply {
	switch {
	case v.Kind == ':' && v.Num == -2:
		return wire.Reply{Answer: quorum.No, Err: errHeldForEver}
	case v.Kind == ':' && v.Num == -3:
		return wire.Reply{Answer: quorum.No, Err: errTooLong}
	}
	return parseCode(v)
}

// parseExtend parses what the scripts that extend return.
func parseExtend(v *wire.Value) wire.Reply {
	switch {
	case v.Kind == ':' && v.Num == 2:
		return wire.Reply{Answer: quorum.Recreated, Err: nodeerr.ErrRecreated}
	case v.Kind == ':' && v.Num == -3:
		return wire.Reply{Answer: quorum.No, Err: errTooLong}
	}
	return parseCode(v)
}

var (
	errHeldForEver = fmt.Errorf("%w: %w", nodeerr.ErrHeld, nodeerr.ErrNoExpiry)
	errTooLong     = fmt.Errorf("%w: a string of more than %d bytes", nodeerr.ErrForeign, wire.MaxToken)
)

func decimal(number uint64) string { return strconv.FormatUint(number, 10) }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
