package main

import (
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/redlock"
)

// listJSON is the JSON of a list.
type listJSON struct {
	Locks     []lockJSON   `json:"locks"`
	Nodes     []reportJSON `json:"nodes"`
	Need      int          `json:"nodes_needed"`
	Hidden    int          `json:"data_hidden"` // names with data of another program that are not among the locks
	Truncated bool         `json:"truncated"`
}

type lockJSON struct {
	Name     string          `json:"name"`
	Verdict  redlock.Verdict `json:"verdict"`
	Kind     redlock.Kind    `json:"kind"`
	Data     bool            `json:"data"` // of another program, and nothing else
	Token    string          `json:"token,omitempty"`
	Metadata string          `json:"metadata,omitempty"`
	Fence    uint64          `json:"fence,omitempty"`
	TTL      int64           `json:"ttl_ms"` // -1 means for ever
	On       int             `json:"on_nodes"`
	Holders  []sharerJSON    `json:"holders,omitempty"`
	More     bool            `json:"holders_left_out,omitempty"` // there are more holders
	Kept     bool            `json:"kept"`
	Waiting  *int            `json:"waiting,omitempty"` // nil means that it is not known
	Remarks  []string        `json:"remarks"`
	Nodes    []viewJSON      `json:"nodes"` // those that hold anything
}

type viewJSON struct {
	Addr  string       `json:"addr"`
	Kind  redlock.Kind `json:"kind,omitempty"` // "" for data
	Data  bool         `json:"data"`
	Token string       `json:"token,omitempty"`
	Fence uint64       `json:"fence,omitempty"`
	TTL   int64        `json:"ttl_ms"`
}

type reportJSON struct {
	Addr  string  `json:"addr"`
	Keys  int     `json:"keys"`
	Took  float64 `json:"took_ms"`
	Left  int64   `json:"quarantine_ms,omitempty"`    // -1 means for ever
	Blind string  `json:"quarantine_error,omitempty"` // why it is not known
	Error string  `json:"error,omitempty"`
}

func listOf(listing *survey.Listing, guarded []quarantine, shown []survey.Lock, hidden int) listJSON {
	to := listJSON{Locks: []lockJSON{}, Need: listing.Need, Hidden: hidden, Truncated: listing.Truncated}
	for _, l := range shown {
		lock := lockJSON{
			Name: l.Name, Verdict: l.Verdict, Kind: l.Kind, Data: l.Other, Token: l.Token, Metadata: l.Metadata, Fence: l.Fence,
			TTL: millis(l.TTL), On: l.On, More: l.More, Kept: l.Kept, Waiting: known(l.Waiting), Remarks: append([]string{}, remarks(l)...),
		}
		for _, h := range l.Holders {
			lock.Holders = append(lock.Holders, sharerOf(l.Kind, h.Holder, h.Kept))
		}
		for _, v := range l.Views {
			lock.Nodes = append(lock.Nodes, viewJSON{listing.Nodes[v.Node].Addr, v.Kind, v.Other, v.Token, v.Fence, millis(v.TTL)})
		}
		to.Locks = append(to.Locks, lock)
	}
	for i, n := range listing.Nodes {
		to.Nodes = append(to.Nodes, reportJSON{
			Addr: n.Addr, Keys: n.Keys, Took: float64(n.Took.Microseconds()) / 1000,
			Left: millis(guarded[i].left), Blind: why(guarded[i].unread), Error: why(n.Err),
		})
	}
	return to
}
