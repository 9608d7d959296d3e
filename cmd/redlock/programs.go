package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/node"
)

// programFlags say how the programs are set up that use the locks. Commands that judge nodes embed it.
type programFlags struct {
	RestartGuard time.Duration `placeholder:"TIME" help:"The programs' restart guard (default none)."`
	Durable      []string      `placeholder:"HOST:PORT" help:"Nodes that the programs declare durable, or all."`
	Fencing      bool          `help:"The programs use fencing tokens."`
	NodeTimeout  time.Duration `default:"300ms" placeholder:"TIME" help:"The programs' node timeout (default ${default})."`
	MaxTTL       time.Duration `name:"max-ttl" placeholder:"TIME" help:"The longest TTL of the programs."`
}

// longest bounds the times of the programs. A longer one is a mistake.
const longest = 365 * 24 * time.Hour

// check checks the flags.
func (f *programFlags) check(servers []*node.Server) error {
	err := errors.Join(
		between("--restart-guard", f.RestartGuard, 0, longest),
		between("--max-ttl", f.MaxTTL, 0, longest),
		between("--node-timeout", f.NodeTimeout, time.Millisecond, longest),
	)
	for _, address := range f.Durable {
		known := func(s *node.Server) bool { return s.Address == address }
		if address != doctor.AllNodes && !slices.ContainsFunc(servers, known) {
			err = errors.Join(err, fmt.Errorf("--durable: %q is not the address of a node: give host:port as in --nodes, or all", address))
		}
	}
	return err
}

// options returns what the doctor has to know of the programs, with the prefix and the timeout of the nodes.
func (f *programFlags) options(nodes *serverFlags) doctor.Options {
	return doctor.Options{
		Prefix: nodes.KeyPrefix, Timeout: nodes.Timeout, NodeTimeout: f.NodeTimeout, TTL: f.MaxTTL, RestartGuard: f.RestartGuard,
		Durable: f.Durable, Fencing: f.Fencing,
	}
}
