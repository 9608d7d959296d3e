package main

import (
	"context"
	"fmt"

	"github.com/fatih/color"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/redlock"
)

// presence asks who waits for a lock, and whether processes listen for its holders. Connecting may take a second, as for list.
func (f *serverFlags) presence(ctx context.Context, servers []*node.Server, s *redlock.LockState) survey.Presence {
	return survey.AskPresence(ctx, servers, f.KeyPrefix, s, f.connect())
}

// present says in sentences who waits for a lock, and that no process listens for its holders. It is empty if nobody waits and the
// processes listen, or if the nodes do not say. docs/tool.md explains each.
func present(s *redlock.LockState, who survey.Presence) (text string) {
	switch {
	case who.Waiting == 1:
		text = " 1 process waits for it."
	case who.Waiting > 1:
		text = fmt.Sprintf(" %d processes wait for it.", who.Waiting)
	}
	if kept := keptIn(s, who); kept > 0 {
		text += " Kept: no process listens for " + survey.Unheard(kept, len(s.Holders), s.Kind)
	}
	return text
}

// keptIn returns for how many holders of a lock no process listens.
func keptIn(s *redlock.LockState, who survey.Presence) (n int) {
	for _, h := range s.Holders {
		if who.Kept(h.Token) {
			n++
		}
	}
	return n
}

// sharerLines are a line for each sharer of a lock, the holders first.
func sharerLines(s *redlock.LockState, who survey.Presence, full bool) (lines []line) {
	for _, kind := range []redlock.Kind{redlock.KindShared, redlock.KindSlot} {
		all := survey.Sharers(s, kind)
		if len(all) == 0 {
			continue
		}
		titles := []column{{"READER", false}, {"SLOT", true}, {"TTL LEFT", true}, {"NODES", true}, {"METADATA", false}, {"", false}}
		if kind == redlock.KindSlot {
			titles[0].title = "HOLDER"
		}
		var rows [][]string
		for _, r := range all {
			rows = append(rows, sharerCells(r, kind, len(s.Nodes), full, who.Kept(r.Token)))
		}
		lines = append(append(lines, line{}), table(titles, rows, func(row int) *color.Color {
			if s.Kind == kind && row < len(s.Holders) {
				return good
			}
			return nil
		})...)
	}
	return lines
}

// sharerCells describes one sharer.
func sharerCells(r redlock.Holder, kind redlock.Kind, nodes int, full, kept bool) []string {
	metadata, slot, note := display.Text(r.Metadata), "", ""
	if !full {
		metadata = clip(metadata, maxShown)
	}
	if kept {
		note = "kept"
	}
	switch {
	case kind != redlock.KindSlot:
	case r.Slot < 0:
		slot = "none"
	default:
		slot = fmt.Sprint(r.Slot)
	}
	on := fmt.Sprintf("%d/%d", r.Nodes, nodes)
	return []string{tokenText(string(r.Token), full), slot, ttlText(r.TTL), on, metadata, note}
}
