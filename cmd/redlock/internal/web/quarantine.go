package web

import "time"

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
