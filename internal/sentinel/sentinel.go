// Package sentinel finds the primary of a group of servers that Redis Sentinels watch.
//
// The files:
//   - sentinel.go: a group, and the search for its primary
//   - follow.go: the reports of a sentinel that another server has become the primary
package sentinel

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/quorumlock/quorumlock/internal/inquiry"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
)

var kind = inquiry.Kind{Name: "sentinel", IsNot: "it is no Sentinel"}

// Group is a group of servers, one of which is the primary. It is a [node.Finder] and safe for concurrent use.
type Group struct {
	name      string
	sentinels []node.Server
	search    inquiry.Search // by the config-epoch: each failover has a higher one
}

// New returns the group that these sentinels watch under this name.
func New(name string, sentinels []node.Server) *Group {
	return &Group{name: name, sentinels: sentinels}
}

// Name returns the name of the group.
func (g *Group) Name() string { return g.name }

// Sentinels returns how to reach the sentinels.
func (g *Group) Sentinels() []node.Server { return g.sentinels }

// Find asks the sentinels for the address of the primary. A sentinel that has not heard of the last failover yet is
// believed only if no other one answers.
func (g *Group) Find(ctx context.Context) (address string, err error) {
	return g.search.Find(ctx, len(g.sentinels), func(ctx context.Context, i int) inquiry.Answer {
		a, _ := g.Ask(ctx, g.sentinels[i])
		return a
	})
}

// Ask asks one sentinel for the primary. known is how many sentinels of the group it knows, itself included.
func (g *Group) Ask(ctx context.Context, s node.Server) (a inquiry.Answer, known int64) {
	ctx, cancel := context.WithTimeout(ctx, inquiry.Patience)
	defer cancel()
	t, err := inquiry.Begin(ctx, kind, s)
	if err != nil {
		return inquiry.Answer{Err: err}, 0
	}
	defer t.End()
	// While a failover ends, only the first command knows the new address. The second one has the epoch of that failover.
	a.Err = t.Ask([][]string{{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.name}, {"SENTINEL", "MASTER", g.name}},
		func(i int, v *wire.Value) (err error) {
			if i == 0 {
				a.Address, err = g.addressIn(v)
				return err
			}
			if a.Epoch, err = numberIn(v, "config-epoch"); err == nil {
				known, err = numberIn(v, "num-other-sentinels")
			}
			return err
		})
	return a, known + 1
}

// addressIn returns the address in a reply to GET-MASTER-ADDR-BY-NAME.
func (g *Group) addressIn(v *wire.Value) (string, error) {
	if v.Kind == '_' || v.Kind == '*' && len(v.Items) == 0 {
		return "", fmt.Errorf("watches no group %q", g.name)
	}
	if v.Kind != '*' || len(v.Items) != 2 || !v.Items[1].IsText() {
		return "", wire.Unexpected(v).Err
	}
	host, err := inquiry.Host(&v.Items[0])
	if err != nil {
		return "", err
	}
	port := string(v.Items[1].Text)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", wire.Unexpected(&v.Items[1]).Err
	}
	return net.JoinHostPort(host, port), nil
}

// numberIn returns a number in a reply to SENTINEL MASTER, or 0 if there is none of that name.
func numberIn(v *wire.Value, name string) (n int64, err error) {
	if v.Kind != '*' && v.Kind != '%' {
		return 0, wire.Unexpected(v).Err
	}
	for i := 0; i+1 < len(v.Items); i += 2 {
		if string(v.Items[i].Text) == name {
			if n, err = strconv.ParseInt(string(v.Items[i+1].Text), 10, 64); err != nil {
				err = wire.Unexpected(&v.Items[i+1]).Err
			}
			return n, err
		}
	}
	return 0, nil
}
