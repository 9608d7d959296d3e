package web

import (
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/internal/node"
)

// stamped is since when the server has been in use as the node, as far as it is asked.
type stamped struct {
	Stamp    client.Stamp
	At       time.Time // when it was so; zero if it is not known
	StampErr error     // why it is not
	Nameless bool      // the server says what it is, and not which one: nobody can stamp it
}

// readStamp reads the stamp, from replies to INFO and to [client.AskStamp]. An empty info was refused.
func readStamp(server, replication string, replies []any) (s stamped) {
	who := node.Identity(server, replication)
	if who.Process == "" || who.History == "" {
		s.Nameless = server != "" && replication != ""
		return s
	}
	if s.Stamp, s.StampErr = client.ReadStamp(who, replies); s.StampErr == nil {
		s.At = time.Now()
	}
	return s
}

// quarantine returns why programs do not ask a node for locks, "" if they do, and why that is not known.
func (s *Server) quarantine(h *health, now time.Time) (why, doubt string) {
	switch left := h.Stamp.Left(s.RestartGuard, now.Sub(h.At)); {
	case h.Nameless:
		return "it does not report which server it is (run_id and master_replid): programs do not ask it for locks", ""
	case h.StampErr != nil:
		return "", "whether it is quarantined is not known, as its stamp cannot be read: " + errorText(h.StampErr)
	case h.At.IsZero() || left <= 0:
		return "", ""
	case h.Stamp.Void != "":
		return h.Stamp.Void + ": programs that connect do not ask it for locks for " + remaining(left), ""
	default:
		return "in use as this node for " + remaining(max(1, h.Stamp.Age)) + ": programs do not ask it for locks for " + remaining(left) + " more", ""
	}
}
