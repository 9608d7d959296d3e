package main

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// inspection is the JSON of an inspection.
type inspection struct {
	Name     string           `json:"name"`
	Verdict  redlock.Verdict  `json:"verdict"`
	Kind     redlock.Kind     `json:"kind,omitempty"` // "" if the nodes hold nothing
	Text     string           `json:"verdict_text"`
	Token    string           `json:"token,omitempty"`
	Metadata string           `json:"metadata,omitempty"`
	Fence    uint64           `json:"fence,omitempty"`
	TTL      int64            `json:"ttl_ms,omitempty"` // -1 means for ever
	Need     int              `json:"nodes_needed"`
	Waits    bool             `json:"writer_waits"`
	Kept     bool             `json:"kept"`
	Waiting  *int             `json:"waiting,omitempty"` // nil means that it is not known
	Readers  []sharerJSON     `json:"readers,omitempty"` // those on fewer nodes too
	Slots    []sharerJSON     `json:"slots,omitempty"`   // likewise
	Nodes    []nodeInspection `json:"nodes"`
}

type sharerJSON struct {
	Token    string `json:"token"`
	Slot     *int   `json:"slot,omitempty"` // that it has, -1 for none
	Metadata string `json:"metadata,omitempty"`
	TTL      int64  `json:"ttl_ms"`
	On       int    `json:"on_nodes"`
	Kept     bool   `json:"kept"`
}

// sharerOf returns the JSON of a holder of a lock of a kind.
func sharerOf(kind redlock.Kind, h redlock.Holder, kept bool) sharerJSON {
	to := sharerJSON{Token: string(h.Token), Metadata: h.Metadata, TTL: millis(h.TTL), On: h.Nodes, Kept: kept}
	if kind == redlock.KindSlot {
		to.Slot = &h.Slot
	}
	return to
}

// known returns a count, nil if it is not known, which is -1.
func known(count int) *int {
	if count < 0 {
		return nil
	}
	return &count
}

type nodeInspection struct {
	Addr     string       `json:"addr"`
	Answered bool         `json:"answered"`
	Kind     redlock.Kind `json:"kind,omitempty"`    // "" if it holds nothing
	Readers  []string     `json:"readers,omitempty"` // their tokens
	Slots    []string     `json:"slots,omitempty"`   // likewise
	Data     bool         `json:"data"`              // of another program
	Token    string       `json:"token,omitempty"`
	Metadata string       `json:"metadata,omitempty"`
	Fence    uint64       `json:"fence,omitempty"`
	TTL      int64        `json:"ttl_ms,omitempty"`
	Latency  float64      `json:"latency_ms,omitempty"`
	Left     int64        `json:"quarantine_ms,omitempty"`    // -1 means for ever
	Blind    string       `json:"quarantine_error,omitempty"` // why it is not known
	Error    string       `json:"error,omitempty"`
}

func inspectionOf(s *redlock.LockState, who survey.Presence, guarded []quarantine, trips *roundTrips) inspection {
	to := inspection{
		Name: s.Name, Verdict: s.Verdict, Kind: s.Kind, Text: explain(s, true) + present(s, who), Need: s.Need,
		Waits: s.WriterWaits, Kept: keptIn(s, who) == len(s.Holders) && len(s.Holders) > 0, Waiting: known(who.Waiting),
	}
	h := exclusive(s.Kind, s.Holders)
	to.Token, to.Metadata, to.Fence = string(h.Token), h.Metadata, h.Fence
	if n := len(s.Holders); n > 0 {
		to.TTL = millis(s.Holders[n-1].TTL)
	}
	for _, r := range survey.Sharers(s, redlock.KindShared) {
		to.Readers = append(to.Readers, sharerOf(redlock.KindShared, r, who.Kept(r.Token)))
	}
	for _, r := range survey.Sharers(s, redlock.KindSlot) {
		to.Slots = append(to.Slots, sharerOf(redlock.KindSlot, r, who.Kept(r.Token)))
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		h := exclusive(n.Kind, n.Holders)
		of := nodeInspection{
			Kind: n.Kind, Addr: n.Addr, Answered: answered(n), Data: errors.Is(n.Err, nodeerr.ErrForeign),
			Token: string(h.Token), Metadata: h.Metadata, Fence: h.Fence, TTL: millis(n.TTL), Error: why(n.Err),
			Left: millis(guarded[i].left), Blind: why(guarded[i].unread),
		}
		if d := trips.of(n.Addr); d > 0 && of.Answered {
			of.Latency = float64(d.Microseconds()) / 1000
		}
		for _, h := range n.Holders {
			switch n.Kind {
			case redlock.KindSlot:
				of.Slots = append(of.Slots, string(h.Token))
			case redlock.KindShared:
				of.Readers = append(of.Readers, string(h.Token))
			}
		}
		to.Nodes = append(to.Nodes, of)
	}
	return to
}

// millis returns a TTL in milliseconds, -1 for a key without one.
func millis(ttl time.Duration) int64 {
	if ttl == redlock.NoLimit {
		return -1
	}
	return ttl.Milliseconds()
}
