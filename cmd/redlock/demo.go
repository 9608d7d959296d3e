package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/pool"
)

const (
	embeddedNodes = 5
	minNodes      = 3 // so that one can be stopped and a majority is left
	minTTL        = time.Second
	maxTTL        = time.Minute // on real nodes a demo that was killed leaves its lock for so long
	demoPrefix    = "redlock-demo:"
)

// demoCmd is the subcommand demo.
type demoCmd struct {
	Nodes   []string      `placeholder:"URL" help:"Real Redis nodes, at least 3: redis://, rediss:// or unix:// URLs with commas between them. They are not stopped: the demo cuts its own connections instead."`
	TTL     time.Duration `default:"10s" help:"How long a lock lives, from 1s to 1m."`
	Timeout time.Duration `default:"200ms" help:"How long one node may take, connecting included; at most a quarter of the TTL."`
	NoColor bool          `help:"Print without colours, as where NO_COLOR is set or the output is no terminal."`

	name string // the lock's; empty: a new one
}

// Validate checks the flags before anything is started or connected.
func (c *demoCmd) Validate() error {
	if c.Nodes != nil { // given, if only as nothing
		nodes, err := checkURLs(c.Nodes)
		if err != nil {
			return err
		}
		if len(nodes) < minNodes {
			return fmt.Errorf("--nodes: %s: %d given, and at least %d are needed for a majority to be left when one is down",
				addresses(nodes), len(nodes), minNodes)
		}
	}
	if c.TTL < minTTL || c.TTL > maxTTL {
		return fmt.Errorf("--ttl: %s: must be from %s, or a lock may be over before its step is, to %s", c.TTL, minTTL, maxTTL)
	}
	return checkTimeout(c.Timeout, c.TTL)
}

// checkURLs checks the flag --nodes. It returns the nodes, closed, for their names.
func checkURLs(urls []string) ([]*pool.Node, error) {
	nodes, err := pool.Open(urls)
	if err != nil {
		return nil, fmt.Errorf("--nodes: %w", err)
	}
	closeNodes(nodes)
	return nodes, nil
}

// checkTimeout checks the flag --timeout.
func checkTimeout(timeout, ttl time.Duration) error {
	if timeout < time.Millisecond || timeout > ttl/4 {
		return fmt.Errorf("--timeout: %s: must be from 1ms to a quarter of the TTL, here %s", timeout, ttl/4)
	}
	return nil
}

// Run tells the story on the nodes. nil: every step went as it should. Whatever
// the outcome, nothing of the demo is left when it returns.
func (c *demoCmd) Run(ctx context.Context, to streams) (err error) {
	servers, err := c.servers()
	if err != nil {
		return err
	}
	s := &story{
		show: newShow(to.out, c.NoColor), servers: servers,
		name: c.name, ttl: c.TTL, timeout: c.Timeout,
	}
	if s.name == "" {
		s.name = demoPrefix + strings.ToLower(rand.Text()[:8])
	}
	defer func() {
		err = errors.Join(err, s.close())
		servers.close()
	}()
	err = s.tell(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted in step %d: %w", s.number, ctx.Err())
	}
	return err
}

func (c *demoCmd) servers() (servers, error) {
	if len(c.Nodes) > 0 {
		return newRemote(c.Nodes), nil
	}
	return newEmbedded(embeddedNodes)
}

func addresses(nodes []*pool.Node) string {
	list := make([]string, len(nodes))
	for i, node := range nodes {
		list[i] = node.Addr()
	}
	return strings.Join(list, ", ")
}

func closeNodes(nodes []*pool.Node) {
	for _, node := range nodes {
		_ = node.Close() // of a pool that has no connection any more
	}
}
