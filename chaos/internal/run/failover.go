//go:build linux

package run

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
	"github.com/quorumlock/quorumlock/chaos/internal/failover"
)

const (
	// failoverTTL is the longest TTL where nodes fail over: with a shorter one what a failover forgets has mostly expired when it is over.
	failoverTTL = 6 * time.Second
	// failoverGuard is above it by the time for which a former primary may go on granting locks.
	failoverGuard = failoverTTL + 2*time.Second
)

// startFailover starts nodes that fail over, and a server for the registers.
func (w *World) startFailover(ctx context.Context) (err error) {
	if w.cluster, err = cluster.New(ctx, cluster.Config{Servers: make([]cluster.ServerConfig, 1)}); err != nil {
		return err
	}
	if err := os.Setenv("TMPDIR", w.cluster.Dir()); err != nil { // for the servers, whose files end with the cluster
		return err
	}
	if w.serverLog, err = os.Create(filepath.Join(w.Dir, "servers.log")); err != nil {
		return err
	}
	if w.failover, err = w.FailOver.Start(w.serverLog); err != nil {
		return err
	}
	for i := range failover.Count {
		w.nodes = append(w.nodes, i)
	}
	return nil
}

// registers returns where a client reaches the registers.
func (w *World) registers(i int) string {
	if w.failover != nil {
		return w.cluster.Server(w.register).Addr()
	}
	return w.cluster.Addr(i, w.register)
}

// command returns the command of a client on its machine. Where nodes fail over, that is the machine of the servers: Sentinels and
// clusters name servers that clients then connect to, past all relays.
func (w *World) command(i int) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil || w.failover == nil {
		return w.cluster.Command(i, program), err
	}
	return exec.Command(program), nil
}

// conn connects to the server that a node is at this moment.
func (w *World) conn(node int) (redis.Conn, error) {
	if w.failover != nil {
		return w.failover.Conn(node)
	}
	return w.cluster.Server(node).Conn()
}
