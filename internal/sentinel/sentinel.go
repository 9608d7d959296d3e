// Package sentinel finds the primary of a group of servers that Redis Sentinels watch.
//
// The files:
//   - sentinel.go: a group, and the search for its primary
//   - follow.go: the reports of a sentinel that another server has become the primary
//   - talk.go: a conversation with one sentinel
package sentinel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	// hedge is how long a search waits for one sentinel before it asks the next one too.
	hedge = 300 * time.Millisecond
	// patience is how long a conversation with one sentinel may take.
	patience = 2 * time.Second
	// maxHost is how long the name of a host may be (RFC 1035).
	maxHost = 255
)

// Group is a group of servers, one of which is the primary. It is a [node.Finder] and safe for concurrent use.
type Group struct {
	name      string
	sentinels []node.Server

	mu    sync.Mutex
	epoch int64 // the highest config-epoch that a sentinel has reported; each failover has a higher one
}

// New returns the group that these sentinels watch under this name.
func New(name string, sentinels []node.Server) *Group {
	return &Group{name: name, sentinels: sentinels}
}

// Name returns the name of the group.
func (g *Group) Name() string { return g.name }

// Sentinels returns how to reach the sentinels.
func (g *Group) Sentinels() []node.Server { return g.sentinels }

// answer is what a sentinel knows of the primary.
type answer struct {
	address string
	epoch   int64
	err     error
}

// Find asks the sentinels for the address of the primary, in random order. The first answer counts, unless the sentinel
// has not heard of the last failover yet: another one has reported a higher epoch. Such an answer counts only if no
// sentinel has a better one.
func (g *Group) Find(ctx context.Context) (address string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()

	var best answer
	var failures []error
	answers, order, asked := make(chan answer), rand.Perm(len(g.sentinels)), 0
	next := time.NewTimer(0)
	defer next.Stop()
	for ended := 0; ended < len(order); {
		select {
		case <-next.C:
			if asked < len(order) {
				s := g.sentinels[order[asked]]
				asking.Go(func() {
					a := g.ask(ctx, s)
					select {
					case answers <- a:
					case <-ctx.Done():
					}
				})
				asked++
				next.Reset(hedge)
			}
		case a := <-answers:
			ended++
			next.Reset(0)
			if a.err != nil {
				failures = append(failures, a.err)
				continue
			}
			if g.newest(a) {
				return a.address, nil
			}
			if best.address == "" || a.epoch > best.epoch {
				best = a
			}
		case <-ctx.Done():
			return "", errors.Join(append(failures, ctx.Err())...)
		}
	}
	if best.address == "" {
		return "", errors.Join(failures...)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.epoch = best.epoch // the sentinels have been set up anew
	return best.address, nil
}

// newest reports whether no sentinel has reported a later failover, and records the epoch.
func (g *Group) newest(a answer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	newest := a.epoch >= g.epoch
	g.epoch = max(g.epoch, a.epoch)
	return newest
}

// ask asks one sentinel for the primary.
func (g *Group) ask(ctx context.Context, s node.Server) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t, err := begin(ctx, s)
	if err != nil {
		return answer{err: err}
	}
	defer t.end()
	// While a failover ends, only the first command knows the new address. The second one has the epoch of that failover.
	err = t.ask([][]string{{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.name}, {"SENTINEL", "MASTER", g.name}},
		func(i int, v *wire.Value) (err error) {
			if i == 0 {
				a.address, err = g.addressIn(v)
				return err
			}
			a.epoch, err = epochIn(v)
			return err
		})
	a.err = err
	return a
}

// addressIn returns the address in a reply to GET-MASTER-ADDR-BY-NAME.
func (g *Group) addressIn(v *wire.Value) (string, error) {
	if v.Kind == '_' || v.Kind == '*' && len(v.Items) == 0 {
		return "", fmt.Errorf("watches no group %q", g.name)
	}
	if v.Kind != '*' || len(v.Items) != 2 || !v.Items[0].IsText() || !v.Items[1].IsText() {
		return "", wire.Unexpected(v).Err
	}
	host, port := string(v.Items[0].Text), string(v.Items[1].Text)
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(host) == 0 || len(host) > maxHost || strings.ContainsFunc(host, odd) {
		return "", wire.Unexpected(&v.Items[0]).Err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", wire.Unexpected(&v.Items[1]).Err
	}
	return net.JoinHostPort(host, port), nil
}

// epochIn returns the config-epoch in a reply to SENTINEL MASTER, or 0 if there is none.
func epochIn(v *wire.Value) (epoch int64, err error) {
	if v.Kind != '*' && v.Kind != '%' {
		return 0, wire.Unexpected(v).Err
	}
	for i := 0; i+1 < len(v.Items); i += 2 {
		if string(v.Items[i].Text) == "config-epoch" {
			if epoch, err = strconv.ParseInt(string(v.Items[i+1].Text), 10, 64); err != nil {
				err = wire.Unexpected(&v.Items[i+1]).Err
			}
			return epoch, err
		}
	}
	return 0, nil
}
