package nodemetrics

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
)

// Nodes returns what a report says of each node, but no quarantine: that ends by itself, which a file does not tell.
func Nodes(r *doctor.Report) (nodes []Node) {
	for i := range r.Servers {
		s := &r.Servers[i]
		n := Node{Addr: s.Node, Latency: -1, Uptime: -1, Master: passed(r, s, "role")}
		n.Up = s.Reachable && (n.Master == nil || *n.Master)
		if s.P50 != nil {
			n.Latency = time.Duration(*s.P50 * float64(time.Millisecond))
		}
		if s.UptimeSeconds != nil {
			n.Uptime = time.Duration(*s.UptimeSeconds) * time.Second
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// passed reports whether a check has found nothing on a node; nil means that it was not made there.
func passed(r *doctor.Report, s *doctor.Server, check string) *bool {
	left := slices.ContainsFunc(r.Unexamined, func(u doctor.Unexamined) bool {
		return u.Check == check && u.Node == s.Node
	})
	if !s.Reachable || left || !slices.Contains(r.Checks, check) {
		return nil
	}
	is := !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Check == check && f.Node == s.Node })
	return &is
}
