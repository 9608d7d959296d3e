package web

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// nodeView is a node on the page.
type nodeView struct {
	Addr, State, Text    string
	Details              []string // all that is to be said of it beside that
	Latency, Up, Version string
	Keys                 string // how many; "" if that is not known
	Line                 sparkline
}

// node shows a node as it is expected to be by now, with a sparkline whose height stands for full.
func (s *Server) node(h *health, full time.Duration, now time.Time) nodeView {
	n := nodeView{Addr: display.Clipped(h.Addr, maxText), Latency: latency(h.Took), Version: h.Version, Line: spark(h.Latencies, full)}
	if h.Up >= 0 {
		n.Up = span(h.Up)
	}
	quarantine, doubt := s.quarantine(h, now)
	refusal := (*nodeerr.ServerError)(nil)
	switch {
	case errors.As(h.Err, &refusal):
		n.State, n.Text = "down", "refuses"
	case h.Err != nil:
		n.State, n.Text = "down", "no answer"
	case quarantine != "":
		n.State, n.Text = "quarantined", "quarantined"
	case h.Took > s.NodeTimeout:
		n.State, n.Text = "slow", "slow"
	default:
		n.State, n.Text = "up", "answers"
	}
	if h.Err != nil {
		n.tell(errorText(h.Err))
		return n
	}
	n.tell(quarantine)
	n.tell(doubt)
	if h.Took > s.NodeTimeout {
		n.tell("slower than the " + latency(s.NodeTimeout) + " that programs wait for a node")
	}
	return n
}

// tell adds a detail, unless it is empty.
func (n *nodeView) tell(detail string) {
	if detail != "" {
		n.Details = append(n.Details, detail)
	}
}
