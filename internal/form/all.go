package form

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Joint is a Form in which a server can take the locks of several keys with one command: all of them, or none.
type Joint interface {
	Form
	// AcquireAll takes the locks of ids, which have one token, if none of the keys exists. asks differ only in their
	// floors, and ask for no blocks. [wire.Reply.Each] has the answer for each of the keys.
	AcquireAll(c *wire.Command, ids []ID, asks []Ask)
}

// ErrOthersHeld is the reason for a key that was not taken because other keys of its command were held.
var ErrOthersHeld = fmt.Errorf("%w: not this one, but others of the call", nodeerr.ErrHeld)

// AcquireAll runs all_acquire.lua. It implements [Joint].
func (Exclusive) AcquireAll(c *wire.Command, ids []ID, asks []Ask) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = id.Key
	}
	all(c, allAcquireScript, firstAllAcquireScript, ids)
	c.WithKeys(keys, c.Token, millis(asks[0].TTL))
}

// AcquireAll runs the script that grants each key a number of its own. It implements [Joint].
func (f *Fenced) AcquireAll(c *wire.Command, ids []ID, asks []Ask) {
	keys, floors := make([]string, 0, 2*len(ids)), make([]string, len(ids))
	for i, id := range ids {
		keys = append(keys, id.Key, counterOf(id.Key))
		if asks[i].Advance || asks[i].Floor > 0 {
			floors[i] = decimal(asks[i].Floor)
		}
	}
	all(c, fencedAllAcquireScript, firstFencedAllAcquireScript, ids)
	c.WithKeys(keys, append([]string{c.Token, millis(asks[0].TTL), decimal(asks[0].Time), millis(f.Keep)}, floors...)...)
}

// all makes a command that takes the locks of ids. The caller adds the keys and the arguments.
func all(c *wire.Command, script, proof *wire.Script, ids []ID) {
	n := len(ids)
	*c = wire.Command{
		Class: wire.Vote, Script: script, Proof: proof, Key: ids[0].Key, Token: ids[0].Token, Several: true,
		Parse: func(v *wire.Value) wire.Reply { return parseAll(v, n, script == fencedAllAcquireScript) },
	}
}

// parseAll parses the reply of all_acquire.lua about n keys.
func parseAll(v *wire.Value, n int, numbered bool) wire.Reply {
	if !numbered && v.Kind == ':' && v.Num == 1 {
		return wire.Reply{Answer: quorum.Yes, Each: slices.Repeat([]wire.Reply{{Answer: quorum.Yes}}, n)}
	}
	if v.Kind != '*' || len(v.Items) == 0 {
		return wire.Unexpected(v)
	}
	if numbered && len(v.Items) == n && v.Items[0].Num > 0 {
		granted := make([]wire.Reply, n)
		for i := range v.Items {
			if granted[i] = parseNumber(&v.Items[i]); granted[i].Answer != quorum.Yes {
				return wire.Unexpected(v)
			}
		}
		return wire.Reply{Answer: quorum.Yes, Each: granted}
	}
	denied, last := slices.Repeat([]wire.Reply{{Answer: quorum.No, Err: ErrOthersHeld}}, n), int64(0)
	for i := range v.Items {
		place := -v.Items[i].Num
		if v.Items[i].Kind != ':' || place <= last || place > int64(n) {
			return wire.Unexpected(v)
		}
		denied[place-1].Err, last = nodeerr.ErrHeld, place
	}
	return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrHeld, Each: denied}
}
