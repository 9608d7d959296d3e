package form

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Demand is the demand of a waiting process on the sharers of a key: how many of them there may be. Sharers that there
// are stay. The process says its demand with an entry in the zset {key}:wanted, and only that process removes the
// entry. The entry ends by itself 3 seconds after it was last said.
type Demand struct {
	// Limit is how many may share the key. A writer wants 0, as does a process that waits while locks of another kind are
	// in its way.
	Limit uint16
	// Kind is the kind of lock that the process waits for. A Limit of 0 does not bind locks of the same kind.
	Kind Kind
	// Force is true while the process releases all sharers by force. Limit and Kind are zero then. The process may have
	// another demand besides.
	Force bool
}

// WantFor is for how long a process that has said its demand is thought to wait. An entry is limit|process, and then
// the mark of the kind, if it has one, or |force. It is share_want.lua that adds it.
const WantFor = 3 * time.Second

// wanted is the value that an observation shows if a process waits that comes first.
const wanted = "|wanted"

// entry returns the entry of a process.
func (d Demand) entry(process string) string {
	kind := d.Kind.Mark()
	if d.Force {
		kind = "|force"
	}
	return strconv.Itoa(int(d.Limit)) + "|" + process + kind
}

// limitOf returns the limit in an entry. ok is false if there is no entry.
func limitOf(entry *wire.Value) (limit int64, ok bool) {
	before, _, _ := bytes.Cut(entry.Text, []byte("|"))
	limit, _ = strconv.ParseInt(string(before), 10, 64) // 0 if that is no number
	return limit, entry.IsText()
}

// Want returns the command by which a process says its demand, or says it again.
func Want(key, process string, d Demand) *wire.Command {
	c := wantCommand(key, process, d)
	c.Class, c.Script = wire.Extend, shareWantScript
	return c.With(c.Token, millis(WantFor))
}

// Unwant returns the command by which a process takes its demand back.
func Unwant(key, process string, d Demand) *wire.Command {
	c := wantCommand(key, process, d)
	c.Class, c.Redeliver = wire.CleanUp, WantFor
	return c.With("ZREM", c.Key, c.Token)
}

// wantCommand makes the common part of Want and Unwant.
func wantCommand(key, process string, d Demand) *wire.Command {
	return &wire.Command{Key: companion(key, behindWanted), Token: d.entry(process), Parse: parseCode}
}

// Wanted reports whether a key is that of the entries of the waiting processes. of is the key that they wait for, or
// key itself if the result is is false.
func Wanted(key string) (of string, is bool) {
	of, is = strings.CutSuffix(key, behindWanted)
	if !is || !strings.HasPrefix(of, beforeKey) {
		return key, false
	}
	return of[len(beforeKey):], true
}
