package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Identity is what a server tells of itself (INFO).
type Identity struct {
	Process string // run_id: another one after a restart
	History string // master_replid: another one after a restart, and when a replica becomes a master
	Before  string // master_replid2: the history that it goes on with as a master, after another; "" if it goes on with none
}

// Stamp is what a stamped server holds.
func (i Identity) Stamp() string { return i.Process + ":" + i.History }

// Holds reports whether a stamp is that of the server. A process may have got another history since it was stamped, when its first replica
// came, or when it dropped what it had kept for those that went: then it goes on with no other, and is the same server still.
func (i Identity) Holds(stamp string) bool {
	process, _, _ := strings.Cut(stamp, ":")
	return i.Process != "" && (stamp == i.Stamp() || process == i.Process && i.Before == "")
}

const (
	// StampTTL is for how long a stamp is kept. A stamp of half that age is made younger, so that it stays.
	StampTTL = 60 * 24 * time.Hour
	renewed  = StampTTL / 4
	// MaxGuard is the longest MaxTTL, which is below the age of a stamp that was made younger.
	MaxGuard = 14 * 24 * time.Hour
)

// StampAge returns how old a stamp with such a TTL is; false if no stamp has it.
func StampAge(ttl time.Duration) (age time.Duration, is bool) {
	return StampTTL - ttl, ttl > 0 && ttl <= StampTTL
}

// VotesAfter returns how old a server's stamp is when it votes: 1 % is allowed for clocks that run at different rates, as Redlock does by
// default.
func VotesAfter(maxTTL time.Duration) time.Duration { return maxTTL + maxTTL/100 }

// StampKey is the key of a node's stamp on its server.
func StampKey(node string) string { return "quorumlock:since:" + node }

// StampScript sets the key to the words behind it. It returns what the key holds then, 1025 bytes at most, and its TTL in milliseconds; an error
// reply if that is not a string. It goes by its source, so that it has no hash.
var StampScript = &Script{Source: `redis.call('SET', KEYS[1], unpack(ARGV))
return {redis.call('GETRANGE', KEYS[1], 0, 1024), redis.call('PTTL', KEYS[1])}
`}

// Stamp is the command that sets the stamp of a node to what set says. The answer is Yes with what the key holds then, and its TTL.
func Stamp(node string, set []string) *Command {
	c := &Command{Class: Own, Script: StampScript, Key: StampKey(node), Parse: parseStamp, BySource: true, Tracked: true}
	return c.With(set...)
}

func parseStamp(v *Value) Reply {
	if v.Kind != '*' || len(v.Items) != 2 || !v.Items[0].IsText() || v.Items[1].Kind != ':' {
		return Unexpected(v)
	}
	return Reply{Answer: quorum.Yes, Value: string(v.Items[0].Text), TTL: TTL(v.Items[1].Num)}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
