package wire

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Guard decides when a server may vote for locks: once it has been in use as the node for the longest TTL. What a server has forgotten was
// granted before it was, and has run out by then.
//
// Since when that is stands on the server itself, so that a program knows it which connects for the first time. It is the stamp of the node:
// a key whose value is the server's [Identity], and whose TTL tells its age. A server that has another stamp, or none, gets one: it was
// restarted, or was made a master, or has taken the place of another.
type Guard struct {
	MaxTTL time.Duration // of the node's locks; 0 means that every server may vote

	server Identity  // that is connected, or was
	seen   time.Time // when it was connected last
	other  time.Time // when another was connected last, as long as this one's stamp may be from before that; zero if it is not
	until  time.Time // when it may vote
	why    error     // why it may not, as long as it has no stamp; nil if it has
}

var (
	errNoIdentity = errors.New("it does not say which server it is (INFO: run_id, master_replid)")
	errUnstamped  = errors.New("it does not keep the stamp that it was sent")
	errChanged    = errors.New("its stamp may have changed, and is being read again")
)

// Connected begins with who the server is, on a new connection or when its stamp is in doubt. It returns the words behind the key of the SET
// that stamps it; nil if it is not to be stamped.
func (g *Guard) Connected(now time.Time, server Identity) (set []string) {
	switch {
	case g.MaxTTL == 0:
		return nil
	case server.Process == "" || server.History == "":
		g.why = errNoIdentity
		return nil
	}
	if g.server != (Identity{}) && !server.Holds(g.server.Stamp()) {
		g.other = g.seen
	}
	if server != g.server {
		g.why = errUnstamped
	}
	g.server, g.seen = server, now
	return []string{g.server.Stamp(), "NX", "PX", millis(StampTTL)}
}

// Broken records that a connection has ended.
func (g *Guard) Broken(now time.Time) { g.seen = now }

// fromBefore reports whether a stamp of an age is from before another server, which may have granted what has not expired.
func (g *Guard) fromBefore(now time.Time, age time.Duration) bool {
	return !g.other.IsZero() && now.Sub(g.other) < min(age, VotesAfter(g.MaxTTL))
}

func (g *Guard) overwrite(ttl time.Duration) []string {
	return []string{g.server.Stamp(), "PX", millis(ttl)}
}

// Stamped takes the answer to a SET: what the key holds then, and its TTL. It returns the words of the next one; nil if there is none.
func (g *Guard) Stamped(now time.Time, set []string, r *Reply) (next []string) {
	age, kept := StampAge(r.TTL)
	kept = kept && r.Answer == quorum.Yes
	own, overwrites := kept && r.Value == g.server.Stamp(), set[1] == "PX"
	switch {
	case r.Answer != quorum.Yes && !errors.Is(r.Err, nodeerr.ErrForeign):
		g.why = r.Err
	case own && !overwrites && g.fromBefore(now, age):
		return g.overwrite(StampTTL)
	case own:
		g.other, g.why = time.Time{}, nil
		if until := now.Add(VotesAfter(g.MaxTTL) - age); until.After(g.until) { // what is known already stands
			g.until = until
		}
		if age > StampTTL/2 {
			return g.overwrite(StampTTL - renewed)
		}
	case overwrites: // or it would be overwritten again and again
		g.why = errUnstamped
	case kept && set[1] == "NX" && g.server.Holds(r.Value):
		return []string{g.server.Stamp(), "XX", "KEEPTTL"}
	default:
		return g.overwrite(StampTTL)
	}
	return nil
}

// Changed records that the stamp may have changed on the server, which does not vote until it has been asked who it is, and for its stamp. That
// has to be at once if it voted until now. Otherwise it is soon enough in a moment: many programs that come to a new server may each overwrite
// its stamp, and each would ask all others to read it.
func (g *Guard) Changed(now time.Time) (atOnce bool) {
	if g.MaxTTL == 0 {
		return false
	}
	atOnce = g.Quarantine(now) == nil
	if g.why == nil {
		g.why = errChanged
	}
	return atOnce
}

// Vote takes the answer to a command that takes a lock. Its yes does not count if the server has pushed before it that its stamp may have
// changed, as it may have forgotten by then what others hold. The key may be there, as after any other refusal.
func (g *Guard) Vote(cmd *Command, r *Reply) {
	if g.why != nil && cmd.Votes() && r.Answer == quorum.Yes && !r.Late {
		*r = Reply{Answer: quorum.Refused, Err: &nodeerr.QuarantineError{Err: g.why}, Command: r.Command, Server: r.Server}
	}
}

// Unstamped reports whether the server has to be asked once more who it is, and for its stamp. It may have refused that for whatever reason:
// also a right that is missing may be given.
func (g *Guard) Unstamped() bool { return g.why != nil }

// Quarantine returns why the server may not vote; nil if it may.
func (g *Guard) Quarantine(now time.Time) *nodeerr.QuarantineError {
	left := max(0, g.until.Sub(now))
	if g.why == nil && left == 0 {
		return nil
	}
	return &nodeerr.QuarantineError{Left: left, Err: g.why}
}
