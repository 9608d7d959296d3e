package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/node"
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
