package web

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// nodeView is a node on the page.
type nodeView struct {
	Addr, State, Text, Detail string
	Latency, Up, Version      string
	Keys                      string // how many; "" if that is not known
	Line                      sparkline
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
		n.State, n.Text, n.Detail = "down", "refuses", errorText(h.Err)
	case h.Err != nil:
		n.State, n.Text, n.Detail = "down", "no answer", errorText(h.Err)
	case quarantine != "":
		n.State, n.Text, n.Detail = "quarantined", "quarantined", quarantine
	case h.Took > s.NodeTimeout:
		n.State, n.Text, n.Detail = "slow", "slow", fmt.Sprintf("programs wait for a node no longer than %s", latency(s.NodeTimeout))
	default:
		n.State, n.Text, n.Detail = "up", "answers", doubt
	}
	return n
}
