package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// webCmd serves a page that shows the nodes and the locks.
type webCmd struct {
	Listen       string        `default:"127.0.0.1:8379" placeholder:"HOST:PORT" help:"Where (default ${default}; port 0 is any)."`
	AllowUnlock  bool          `help:"Let whoever opens the page free locks."`
	Interval     time.Duration `default:"1s" placeholder:"TIME" help:"How often the nodes are asked (default ${default})."`
	ExamineEvery time.Duration `default:"5m" placeholder:"TIME" help:"How often the doctor examines them (default ${default})."`
	programFlags
	serverFlags
}

// Run serves the page until ctx ends.
func (c *webCmd) Run(ctx context.Context, to streams) (err error) {
	err = between("--interval", c.Interval, 200*time.Millisecond, time.Hour)
	if c.ExamineEvery != 0 {
		err = errors.Join(err, between("--examine-every", c.ExamineEvery, 10*time.Second, 24*time.Hour))
	}
	if err != nil {
		return &exitError{exitUsage, err}
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return usage("--listen must be HOST:PORT, such as 127.0.0.1:8379, not %q", c.Listen)
	}
	var opts []redlock.Option
	if c.Fencing {
		opts = append(opts, redlock.WithFencing())
	}
	cluster, err := c.open([]pool.Option{c.patient()}, opts...)
	if err != nil {
		return err
	}
	defer cluster.Close()
	servers := serversOf(cluster.nodes)
	if err := c.programFlags.check(servers); err != nil {
		return &exitError{exitUsage, err}
	}
	config := c.page(cluster, servers)
	config.Host, config.Log = host, to.err
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return usage("--listen: %w; choose another address, or port 0 for any that is free", err)
	}
	addr := listener.Addr().(*net.TCPAddr)
	shown := addr.String()
	switch {
	case addr.IP.IsUnspecified():
		shown = fmt.Sprintf("127.0.0.1:%d", addr.Port)
		fallthrough
	case !addr.IP.IsLoopback():
		can := "see all locks"
		if c.AllowUnlock {
			can = "see and free all locks"
		}
		fmt.Fprintf(to.err, "redlock: warning: other machines can reach %s, and whoever does can %s: there is no password and no encryption\n", addr, can)
	}
	fmt.Fprintf(to.out, "redlock: http://%s/ (Ctrl-C ends it)\n", shown)
	return web.New(config).Serve(ctx, listener)
}

// page returns what the page shows, and how.
func (c *webCmd) page(on *cluster, servers []*node.Server) web.Config {
	return web.Config{
		Servers: servers, Timeout: c.Timeout, Prefix: c.KeyPrefix,
		List: func(ctx context.Context) (*survey.Listing, error) {
			return survey.List(ctx, servers, survey.Options{Prefix: c.KeyPrefix, Fencing: c.Fencing, Limit: web.MaxLocks, Timeout: c.Timeout})
		},
		Examine: func(ctx context.Context) (*doctor.Report, error) {
			return doctor.Examine(ctx, servers, c.options(&c.serverFlags))
		},
		Interval: c.Interval, ExamineEvery: c.ExamineEvery, RestartGuard: c.RestartGuard, Durable: c.Durable, NodeTimeout: c.NodeTimeout,
		AllowUnlock: c.AllowUnlock, Nodes: on.nodes, Locker: on.Locker,
	}
}
