package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// guardFlags say which nodes the programs guard against restarts. Commands that say whether a lock can be taken embed it.
type guardFlags struct {
	RestartGuard time.Duration `placeholder:"TIME" help:"The programs' restart guard (default none)."`
	Durable      []string      `placeholder:"HOST:PORT" help:"Nodes that the programs declare durable, or all."`
}

// check checks the flags.
func (f *guardFlags) check(servers []*node.Server) error {
	err := between("--restart-guard", f.RestartGuard, 0, node.MaxGuard)
	for _, address := range f.Durable {
		known := func(s *node.Server) bool { return s.Address == address }
		if address != doctor.AllNodes && !slices.ContainsFunc(servers, known) {
			err = errors.Join(err, fmt.Errorf("--durable: %q is not the address of a node: give host:port as in --nodes, or all", address))
		}
	}
	for _, s := range servers {
		if s.Finder != nil && doctor.Durable(f.Durable, s.Address) {
			err = errors.Join(err, fmt.Errorf("--durable: %s fails over, so it cannot be durable", s.Address))
		}
	}
	return err
}

// quarantines asks for how long the programs do not ask each node for locks. It asks nothing without a guard.
func (f *guardFlags) quarantines(ctx context.Context, servers []*node.Server, timeout time.Duration) (all []quarantine) {
	guarded := func(addr string) bool { return doctor.Guarded(f.RestartGuard, f.Durable, addr) }
	for _, s := range survey.AskStamps(ctx, servers, guarded, timeout) {
		q := quarantine{unread: s.StampErr}
		switch {
		case s.Nameless:
			q.left = redlock.NoLimit
		case !s.At.IsZero():
			q.left, q.unbegun = max(0, s.Stamp.Left(f.RestartGuard, time.Since(s.At))), s.Stamp.Void != ""
		}
		all = append(all, q)
	}
	return all
}

// quarantine is what is known of the restart guard for a node.
type quarantine struct {
	left    time.Duration // for how much longer programs do not ask it for locks; redlock.NoLimit means for ever
	unbegun bool          // the time begins when a program connects
	unread  error         // why it is not known
}

// grants reports whether a node that has answered with an error may grant locks to programs: the user may lack a right that they have.
func grants(err error) bool {
	refusal := (*nodeerr.ServerError)(nil)
	return err == nil || errors.Is(err, nodeerr.ErrForeign) || errors.Is(err, survey.ErrTooManyKeys) ||
		errors.As(err, &refusal) && refusal.Code == "NOPERM"
}

// explainQuarantines says how many nodes that answer are quarantined, and for how long nobody can take a lock if these are too many.
// It is empty if none is.
func explainQuarantines(all []quarantine, answers func(node int) bool) (lines []line) {
	var in []quarantine
	voters, unread, unasked := 0, 0, error(nil)
	for i, q := range all {
		switch {
		case !answers(i):
		case q.left > 0:
			in = append(in, q)
		default:
			if voters++; q.unread != nil {
				unread, unasked = unread+1, q.unread
			}
		}
	}
	if len(in) > 0 {
		slices.SortStableFunc(in, func(a, b quarantine) int { return cmp.Compare(a.left, b.left) })
		lines = append(lines, line{quarantined(in, voters, len(all)) + ".", odd})
	}
	if unread > 0 {
		lines = append(lines, line{fmt.Sprintf("Of %s the stamp cannot be read, so whether it is quarantined is not known: %s",
			display.Counted(unread, "node"), why(unasked)), odd})
	}
	return lines
}

// quarantined says that nodes are quarantined beside others that vote. The node whose quarantine ends first is in front.
func quarantined(in []quarantine, voters, nodes int) string {
	text := fmt.Sprintf("%d of %d nodes are quarantined", len(in), nodes)
	if len(in) == 1 {
		text = fmt.Sprintf("1 of %d nodes is quarantined", nodes)
	}
	last := len(in)
	if need := nodes/2 + 1; voters < need {
		text, last = text+": no lock can be taken", need-voters
	}
	if last > len(in) || in[last-1].left == redlock.NoLimit {
		return text
	}
	if text += " for " + ttlText(in[last-1].left) + " more"; in[last-1].unbegun {
		text += ", from when a program connects"
	}
	return text
}
