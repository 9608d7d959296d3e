package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Identity is how a server identifies itself (INFO).
type Identity struct {
	Process string // run_id, which is another one after a restart
	// History is master_replid. It is another one after a restart, and when a replica becomes a master.
	History string
	// Before is master_replid2: the earlier history that the server continues as a master. It is "" if it continues none.
	Before string
}

// Stamp returns the value of the stamp of the server.
func (i Identity) Stamp() string { return i.Process + ":" + i.History }

// Holds reports whether a stamp belongs to the server. A process may have got another history since it was stamped.
// That happens when its first replica comes, or when it drops the history that it has kept for replicas that left. Then
// it continues no other history, and it is still the same server.
func (i Identity) Holds(stamp string) bool {
	process, _, _ := strings.Cut(stamp, ":")
	return i.Process != "" && (stamp == i.Stamp() || process == i.Process && i.Before == "")
}

const (
	// StampTTL is for how long a stamp is kept. A stamp that is older than half of that is made younger, so that it stays.
	StampTTL = 60 * 24 * time.Hour
	renewed  = StampTTL / 4
	// MaxGuard is the longest MaxTTL, which is below the age of a stamp that was made younger.
	MaxGuard = 14 * 24 * time.Hour
)

// StampAge returns the age of a stamp that has this TTL. is reports whether a stamp can have it.
func StampAge(ttl time.Duration) (age time.Duration, is bool) {
	return StampTTL - ttl, ttl > 0 && ttl <= StampTTL
}

// VotesAfter returns how old a server's stamp must be before the server votes. 1 % is allowed for clocks that run at
// different rates, as Redlock does by default.
func VotesAfter(maxTTL time.Duration) time.Duration { return maxTTL + maxTTL/100 }

// StampKey is the key of a node's stamp on its server.
func StampKey(node string) string { return "quorumlock:since:" + node }

// StampScript sets the key to the words behind it. It returns the value of the key afterwards, 1025 bytes at most, and
// its TTL in milliseconds. It returns an error reply if the value is not a string. It is sent as its source, so it has
// no hash.
var StampScript = &Script{Source: `redis.call('SET', KEYS[1], unpack(ARGV))
return {redis.call('GETRANGE', KEYS[1], 0, 1024), redis.call('PTTL', KEYS[1])}
`}

// Stamp returns the command that sets the stamp of a node with the words of set. The answer is Yes, with the value of
// the key afterwards and its TTL.
func Stamp(node string, set []string) *Command {
	c := &Command{Class: Own, Script: StampScript, Key: StampKey(node), Parse: parseStamp, BySource: true, Tracked: true}
	return c.With(set...)
}

// parseStamp parses the reply to a Stamp.
func parseStamp(v *Value) Reply {
	if v.Kind != '*' || len(v.Items) != 2 || !v.Items[0].IsText() || v.Items[1].Kind != ':' {
		return Unexpected(v)
	}
	return Reply{Answer: quorum.Yes, Value: string(v.Items[0].Text), TTL: TTL(v.Items[1].Num)}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
