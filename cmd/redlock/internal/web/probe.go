package web

import (
	"cmp"
	"context"
	"regexp"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

const (
	// maxLatencies is how many latencies of a node are remembered.
	maxLatencies = 60
	// noAnswer is in the place of a latency.
	noAnswer time.Duration = -1
)

// health is how a node has answered lately. It is not changed once others see it.
type health struct {
	Addr      string
	Err       error         // why it did not answer
	Took      time.Duration // of its answer
	Up        time.Duration // how long the server has been up; below 0 if it does not say
	Version   string        // "" if it does not say
	Role      string        // "" if it does not say
	Latencies []time.Duration
	Turned    time.Time // when the server was found to be away, or back; zero if it has always answered
	client.Stamped
}

// probe asks one server how it is, on a connection that it keeps.
type probe struct {
	server  *node.Server
	timeout time.Duration
	prefix  string         // of the keys of locks
	guarded bool           // the programs' restart guard is for the node
	client  *client.Client // nil if there is no connection
	last    health
}

func newProbe(config *Config, server *node.Server) *probe {
	return &probe{
		server: server, timeout: config.Timeout, prefix: config.Prefix,
		guarded: doctor.Guarded(config.RestartGuard, config.Durable, server.Address),
	}
}

var (
	version = regexp.MustCompile(`(?m)^(?:redis|valkey)_version:([0-9.]{1,20})`)
	uptime  = regexp.MustCompile(`(?m)^uptime_in_seconds:(\d{1,9})\b`)
)

// ask asks the server once. Nobody else may use the probe meanwhile.
func (p *probe) ask(ctx context.Context) health {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, nodeerr.ErrTimeout)
	defer cancel()
	h := health{Addr: p.server.Address, Took: noAnswer, Up: -1, Turned: p.last.Turned}
	kept := p.client != nil
	h.Err = p.exchange(ctx, &h)
	if h.Err != nil && kept && ctx.Err() == nil { // the server closes a connection when it restarts, or after its own timeout
		p.close()
		h.Err = p.exchange(ctx, &h)
	}
	if h.Err != nil {
		h.Took = noAnswer
		if ctx.Err() != nil {
			h.Err = context.Cause(ctx)
		}
		p.close()
	}
	if (h.Err == nil) != (p.last.Err == nil) {
		h.Turned = time.Now()
	}
	first := max(0, len(p.last.Latencies)+1-maxLatencies)
	h.Latencies = append(append([]time.Duration(nil), p.last.Latencies[first:]...), h.Took)
	p.last = h
	return h
}

func (p *probe) exchange(ctx context.Context, h *health) (err error) {
	if p.client == nil {
		if p.client, err = client.Connect(ctx, p.server); err != nil {
			p.client = nil
			return err
		}
	}
	began := time.Now()
	_, err = p.client.Do(ctx, "PING")
	h.Took = time.Since(began)
	if err != nil {
		return err
	}
	commands := [][]string{{"INFO", "server"}, {"INFO", "replication"}}
	first := len(commands)
	commands = append(commands, client.AskSlot(p.server, p.prefix)...)
	stamp := len(commands)
	if p.guarded {
		commands = append(commands, client.AskStamp(p.server)...)
	}
	replies, err := p.client.DoAll(ctx, commands)
	if err != nil {
		return err
	}
	info, _ := redis.String(replies[0], nil) // not every user may ask for it
	if err := node.RefuseSentinel(info); err != nil {
		return err
	}
	if match := version.FindAllStringSubmatch(info, -1); match != nil {
		h.Version = match[len(match)-1][1] // Valkey says which Redis it stands for, and then its own
	}
	if match := uptime.FindStringSubmatch(info); match != nil {
		seconds, _ := strconv.Atoi(match[1])
		h.Up = time.Duration(seconds) * time.Second
	}
	replication, _ := redis.String(replies[1], nil)
	h.Role = client.Role(replication)
	if p.guarded {
		h.Stamped = client.ReadStamped(info, replication, replies[stamp:])
	}
	return cmp.Or(client.RequireMaster(replication), client.ReadSlot(replies[first:stamp]))
}

func (p *probe) close() {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}
