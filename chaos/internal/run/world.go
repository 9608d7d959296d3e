//go:build linux

// Package run lets clients take locks on servers that fail, and checks what they have seen.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/client"
	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
	"github.com/quorumlock/quorumlock/chaos/internal/failover"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/chaos/internal/kind"
	"github.com/quorumlock/quorumlock/chaos/internal/nemesis"
)

const (
	nodes   = 5
	clients = 4
	workers = 40 // of each client
	// standbys is how many nodes may fail over behind their names: a majority, as whatever one node forgets does no harm.
	standbys = 3

	nodeTimeout = 300 * time.Millisecond // the default of the library
	guard       = 5 * time.Second        // above 3 s, twice the node timeout and the difference of the clocks, for fences

	// drift is how much faster or slower the clock of a node runs: within what docs/safety.md permits.
	drift = 0.004
)

// Config is what is run.
type Config struct {
	Seed    uint64
	Lasting time.Duration // of an episode, until what was disturbed gets well again, and what was recorded is checked
	Before  int           // how many episodes there were before
	Dir     string        // for logs and histories
	Kinds   []kind.Kind
	Out     io.Writer
	Durable bool // nodes that sync each write and are not guarded; otherwise they keep nothing, and a restart guard is on
	Break   *nemesis.Break
	Faults  []nemesis.Fault // none: no fault happens
	// FailOver has nodes fail over that are several servers each, and its faults happen in the place of Faults.
	FailOver *failover.Kind
}

// World is a set of servers and clients, which live for some episodes.
type World struct {
	Config
	cluster   *cluster.Cluster
	failover  *failover.Nodes // nil: the nodes are servers of the cluster
	serverLog *os.File        // of nodes that fail over
	postgres  *cluster.Postgres
	nodes     []int
	register  int
	ttls      []time.Duration
	worked    int64 // when the clients began, in the last episode
	drained   int64 // when they had to begin nothing more
	dice      *rand.Rand
	began     int64
	episode   int
	left      map[string]bool // keys without a TTL that were noted, by node and key
	stderr    io.Writer

	mu      sync.Mutex // held while clients are told something
	clients []*process
	started int // client processes so far
	names   []string
	at      int // the episode in which clients work; 0 between episodes
}

// Start starts servers and clients.
func Start(ctx context.Context, c Config) (w *World, err error) {
	w = &World{Config: c, dice: rand.New(rand.NewPCG(c.Seed, 1)), began: history.Now(), episode: c.Before, left: map[string]bool{}, stderr: os.Stderr}
	w.ttls = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	if c.Durable {
		w.ttls = append(w.ttls, 8*time.Second)
	}
	if w.FailOver != nil {
		w.ttls = append(w.ttls, failoverTTL)
		err = w.startFailover(ctx)
	} else {
		err = w.startServers(ctx)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if err != nil {
		return w, err
	}
	if w.postgres, err = w.cluster.StartPostgres(ctx, "-c", "idle_in_transaction_session_timeout=2s"); err != nil {
		return w, err
	}
	if err := client.MakeRegisters(ctx, w.postgres.DSN()); err != nil {
		return w, err
	}
	for i := range clients {
		p, err := w.launch(i, w.nodes)
		if err != nil {
			return w, err
		}
		w.clients = append(w.clients, p)
	}
	if w.guard() > 0 {
		wait(ctx, w.guard()+w.guard()/100+time.Second) // servers that have not been in use are quarantined
	}
	return w, ctx.Err()
}

// startServers starts nodes that are a server each, and a server for the registers.
func (w *World) startServers(ctx context.Context) (err error) {
	servers := slices.Repeat([]cluster.ServerConfig{{Durable: w.Durable}}, nodes+1)
	if w.cluster, err = cluster.New(ctx, cluster.Config{Servers: servers, Clients: clients}); err != nil {
		return err
	}
	for j := range nodes {
		w.nodes = append(w.nodes, j)
		w.cluster.Server(j).SetClockRate(1 + drift*(2*w.dice.Float64()-1))
	}
	w.register = nodes
	for j := range standbys {
		if w.guard() == 0 || len(w.Faults) == 0 {
			break
		}
		if err := w.cluster.AddStandby(j); err != nil {
			return err
		}
	}
	return nil
}

// guard is how long nodes are quarantined, 0 if they are not.
func (w *World) guard() time.Duration {
	switch {
	case w.Durable || w.Break != nil:
		return 0
	case w.failover != nil:
		return failoverGuard
	}
	return guard
}

// urls returns what a client calls nodes.
func (w *World) urls(i int, nodes []int) (urls []string) {
	if w.failover != nil {
		return w.failover.URLs()
	}
	for _, j := range nodes {
		urls = append(urls, "redis://"+w.cluster.Addr(i, j))
	}
	return urls
}

// launch starts a client on the i-th machine.
func (w *World) launch(i int, nodes []int) (*process, error) {
	w.started++
	if w.Break != nil && w.Break.Lists && i%2 == 1 {
		nodes = nodes[:2] // two of these have a majority of their own
		if i%4 == 1 {
			nodes = []int{nodes[0]}
		}
	}
	config := client.Config{
		Name: fmt.Sprintf("client%d.%d", i, w.started), Dir: w.Dir, URLs: w.urls(i, nodes), Register: w.registers(i),
		Postgres: w.postgres.DSN(), Workers: workers, Seed: w.Seed<<16 + uint64(w.started),
		Timeout: nodeTimeout, Guard: w.guard(), TTLs: w.ttls,
	}
	cmd, err := w.command(i)
	if err != nil {
		return nil, err
	}
	return launch(cmd, i, config, w.stderr)
}

// Close ends all.
func (w *World) Close() (err error) {
	for _, p := range w.clients {
		err = errors.Join(err, p.end())
	}
	if w.failover != nil {
		err = errors.Join(err, w.failover.Close())
	}
	if w.serverLog != nil {
		err = errors.Join(err, w.serverLog.Close())
	}
	if w.cluster != nil {
		err = errors.Join(err, w.cluster.Close())
	}
	return err
}
