package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/fatih/color"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// inspectCmd is the subcommand inspect.
type inspectCmd struct {
	Name string `arg:"" help:"The lock's name, without the key prefix."`
	watchFlags
	Full bool `group:"Output" help:"Show whole tokens."`
	JSON bool `name:"json" group:"Output" help:"Print JSON, with --watch an object per line."`
	guardFlags
	serverFlags
}

// Run shows who holds a lock.
func (c *inspectCmd) Run(ctx context.Context, to streams) error {
	if err := c.watchFlags.check(); err != nil {
		return err
	}
	servers, err := c.servers()
	if err != nil {
		return err
	}
	if err := c.guardFlags.check(servers); err != nil {
		return &exitError{exitUsage, err}
	}
	trips := &roundTrips{}
	cluster, err := c.open([]pool.Option{trips.dialer()})
	if err != nil {
		return err
	}
	defer cluster.Close()
	return c.run(ctx, to, c.JSON, func(out, _ paper) error {
		s, err := cluster.Inspect(ctx, c.Name)
		if s == nil || ctx.Err() != nil {
			return err
		}
		who, guarded := c.presence(ctx, servers, s), c.quarantines(ctx, servers, c.connect())
		if c.JSON {
			return errors.Join(display.JSON(out.w, inspectionOf(s, who, guarded, trips), ""), unanswered(err))
		}
		if c.Full {
			out.columns = 0
		}
		answers := func(node int) bool { return grants(s.Nodes[node].Err) }
		out.print(append(c.lines(s, who, trips, out.columns), explainQuarantines(guarded, answers)...))
		return unanswered(err)
	})
}

// unanswered returns the error of an inspection without the answers of the nodes, which are shown.
func unanswered(err error) error {
	if quorum := (*redlock.QuorumError)(nil); errors.As(err, &quorum) {
		return quorum.Reason
	}
	return err
}

// lines are what is printed.
func (c *inspectCmd) lines(s *redlock.LockState, who survey.Presence, trips *roundTrips, columns int) []line {
	titles := []column{{"NODE", false}, {"HELD BY", false}, {"TTL LEFT", true}, {"FENCE", true}, {"METADATA", false}, {"LATENCY", true}, {"ERROR", false}}
	var rows [][]string
	for i := range s.Nodes {
		rows = append(rows, append([]string{s.Nodes[i].Addr}, c.cells(&s.Nodes[i], trips)...))
	}
	lines := append([]line{{fmt.Sprintf("Lock %s, at %s", display.Text(c.KeyPrefix+c.Name), time.Now().Format(time.TimeOnly)), loud}, {}},
		table(titles, rows, func(row int) *color.Color {
			switch n := &s.Nodes[row]; {
			case n.Err != nil:
				return bad
			case s.Verdict == redlock.VerdictHeld && n.Kind == s.Kind && exclusive(n.Kind, n.Holders).Token == exclusive(s.Kind, s.Holders).Token:
				return good
			}
			return nil
		})...)
	lines = append(append(lines, sharerLines(s, who, c.Full)...), line{})
	text := []string{explain(s, c.Full) + present(s, who)}
	if columns > 0 { // what is no terminal gets one line, which can be searched for
		text = wrap(text[0], min(100, columns))
	}
	for _, text := range text {
		lines = append(lines, line{text, colorOf(s.Verdict)})
	}
	return lines
}

// cells describes what a node holds.
func (c *inspectCmd) cells(n *redlock.NodeState, trips *roundTrips) []string {
	held, ttl, fence, latency, failure := "", "", "", "", ""
	switch {
	case errors.Is(n.Err, nodeerr.ErrForeign):
		held, ttl, failure = "foreign data", ttlText(n.TTL), "not a string"
		if !errors.As(n.Err, new(*nodeerr.ServerError)) {
			failure = strings.TrimPrefix(n.Err.Error(), nodeerr.ErrForeign.Error()+": ")
		}
	case n.Err != nil:
		held, failure = "?", why(n.Err)
	case n.Kind == "":
		held = "nothing"
	default:
		held, ttl = heldBy(n, c.Full), ttlOn(n)
	}
	holder := exclusive(n.Kind, n.Holders)
	if holder.Fence > 0 {
		fence = fmt.Sprint(holder.Fence)
	}
	if d := trips.of(n.Addr); d > 0 && answered(n) {
		latency = benchreport.Duration(d)
	}
	metadata := display.Text(holder.Metadata)
	if !c.Full {
		metadata, failure = clip(metadata, maxShown), clip(failure, 80)
	}
	return []string{held, ttl, fence, metadata, latency, failure}
}

// answered reports whether the node said what it holds.
func answered(n *redlock.NodeState) bool { return n.Err == nil || errors.Is(n.Err, nodeerr.ErrForeign) }

// why explains in a line why a node did not answer; "" if it did.
func why(err error) string {
	if errors.Is(err, nodeerr.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		err = nodeerr.ErrTimeout // which it was that was too late is no matter
	}
	return firstLine(reason(err))
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// roundTrips measures how long the nodes take to answer: from when a command is written to when the first bytes come.
type roundTrips struct {
	mu     sync.Mutex
	latest map[string]time.Duration // by address
}

// dialer lets the connections of nodes be measured.
func (r *roundTrips) dialer() pool.Option {
	r.latest = map[string]time.Duration{}
	return pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &measuredConn{Conn: conn, address: address, to: r}, nil
	})
}

// of returns the latest round trip to a node; 0 means there was none.
func (r *roundTrips) of(address string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest[address]
}

// measuredConn is a connection on which each answer comes after one write.
type measuredConn struct {
	net.Conn
	address string
	to      *roundTrips
	sent    time.Time // under to.mu; zero when it was answered
}

func (c *measuredConn) Write(p []byte) (int, error) {
	c.to.mu.Lock()
	c.sent = time.Now()
	c.to.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *measuredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	now := time.Now()
	c.to.mu.Lock()
	if n > 0 && !c.sent.IsZero() {
		c.to.latest[c.address], c.sent = now.Sub(c.sent), time.Time{}
	}
	c.to.mu.Unlock()
	return n, err
}
