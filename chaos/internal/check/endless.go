package check

import (
	"fmt"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// Endless finds keys that were left without a TTL, by others than programs without the library.
func (h *History) Endless() (violations []Violation) {
	type place struct {
		node       int
		key, value string
	}
	strange := map[place]bool{}
	for _, ops := range h.names {
		for _, o := range ops {
			if o.Kind == history.Set && o.Err != history.Taken {
				strange[place{o.Node, o.Key, o.Value}] = true
			}
		}
	}
	for _, o := range h.left {
		if !strange[place{o.Node, o.Key, o.Value}] {
			violations = append(violations, Violation{
				Promise: Endless, Name: o.Key, Text: fmt.Sprintf("a %s on node %d, with %q", o.What, o.Node, o.Value), Ops: []*history.Op{o},
			})
		}
	}
	return violations
}
