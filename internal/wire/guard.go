package wire

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Guard decides when a server may vote for locks: when it has been in use as the node for the longest TTL. If it has
// forgotten a lock, the lock was granted before it came into use, and has run out by then.
//
// The server itself keeps the time since when it has been in use. So a program knows that time even when it connects
// for the first time. The time is kept as the stamp of the node: a key whose value is the server's [Identity], and
// whose TTL shows its age. A server with another stamp, or with none, was restarted, was made a master, or has taken
// the place of another server. It gets a new stamp.
type Guard struct {
	// MaxTTL is the longest TTL of the node's locks. 0 means that every server may vote.
	MaxTTL time.Duration

	server Identity  // the server that is connected, or was connected last
	seen   time.Time // when that server was last known to be connected
	// other is when another server was connected last, while the stamp of this one may be from before that. Zero means
	// that it is not.
	other time.Time
	until time.Time // when the server may vote
	why   error     // why the server may not vote while its stamp is not confirmed; nil if it is
}

var (
	errNoIdentity = errors.New("it does not say which server it is (INFO: run_id, master_replid)")
	errUnstamped  = errors.New("it does not keep the stamp that it was sent")
	errChanged    = errors.New("its stamp may have changed, and is being read again")
)

// Connected records the identity of the server, on a new connection or when its stamp is in doubt. It returns the words
// behind the key of the SET that stamps the server. It returns nil if the server is not to be stamped.
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

// fromBefore reports whether a stamp of this age is from before another server was connected. That server may have
// granted locks that have not expired.
func (g *Guard) fromBefore(now time.Time, age time.Duration) bool {
	return !g.other.IsZero() && now.Sub(g.other) < min(age, VotesAfter(g.MaxTTL))
}

func (g *Guard) overwrite(ttl time.Duration) []string {
	return []string{g.server.Stamp(), "PX", millis(ttl)}
}

// Stamped handles the answer to a SET, which has the value of the key afterwards and its TTL. It returns the words of
// the next SET, or nil if there is none.
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
		if until := now.Add(VotesAfter(g.MaxTTL) - age); until.After(g.until) { // it never becomes earlier
			g.until = until
		}
		if age > StampTTL/2 {
			return g.overwrite(StampTTL - renewed)
		}
	case overwrites: // otherwise the stamp would be overwritten again and again
		g.why = errUnstamped
	case kept && set[1] == "NX" && g.server.Holds(r.Value):
		return []string{g.server.Stamp(), "XX", "KEEPTTL"}
	default:
		return g.overwrite(StampTTL)
	}
	return nil
}

// Changed records that the stamp may have changed on the server. The server does not vote until it has been asked for
// its identity and its stamp again. If it voted until now, that has to be done at once. Otherwise a moment later is
// soon enough. When many programs come to a new server, each may overwrite its stamp, and each would make all others
// read it again.
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

// Vote handles the answer to a command that takes a lock. A yes does not count if the server has pushed before it that
// its stamp may have changed. By then the server may have forgotten the locks of others. The key may exist, as after
// any other refusal.
func (g *Guard) Vote(cmd *Command, r *Reply) {
	if g.why != nil && cmd.Votes() && r.Answer == quorum.Yes && !r.Late {
		*r = Reply{Answer: quorum.Refused, Err: &nodeerr.QuarantineError{Err: g.why}, Command: r.Command, Server: r.Server}
	}
}

// Unstamped reports whether the server has to be asked again for its identity and its stamp. The reason of its refusal
// does not matter: even a missing permission may be granted later.
func (g *Guard) Unstamped() bool { return g.why != nil }

// Quarantine returns why the server may not vote; nil if it may.
func (g *Guard) Quarantine(now time.Time) *nodeerr.QuarantineError {
	left := max(0, g.until.Sub(now))
	if g.why == nil && left == 0 {
		return nil
	}
	return &nodeerr.QuarantineError{Left: left, Err: g.why}
}
