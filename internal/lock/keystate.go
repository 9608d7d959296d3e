package lock

import (
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// keyState is what the reply to an observation shows of a key.
func keyState(f form.Form, reply wire.Reply) quorum.KeyState {
	seen := f.Seen(reply)
	s := quorum.KeyState{Answered: true, Tracked: reply.Tracked}
	switch seen.Answer {
	case quorum.Yes:
		s.Held, s.Token, s.Owner = true, seen.Token, token.Owner(seen.Token)
		s.TTL, s.NoTTL = seen.TTL, seen.TTL == wire.NoTTL
		if s.NoTTL { // it is deleted by its whole value
			s.Token = seen.Value
		}
	case quorum.No:
	default:
		// Any other error goes away, or is found out by a round.
		s.Foreign = seen.Foreign
		s.Answered, s.Held, s.Tracked = s.Foreign, s.Foreign, s.Foreign && s.Tracked
	}
	return s
}
