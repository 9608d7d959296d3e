package sentinel

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/inquiry"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	// pingEvery is how often a sentinel that reports is asked whether it is there. One that is silent for twice that time
	// is left.
	pingEvery = 5 * time.Second
	// pause is the time between two attempts to follow a sentinel.
	pause = time.Second
)

// Follow calls moved with the address of the primary when a sentinel reports that it is another one. It follows one
// sentinel at a time, until ctx ends.
func (g *Group) Follow(ctx context.Context, moved func(to string)) {
	for i := rand.IntN(len(g.sentinels)); ctx.Err() == nil; i++ {
		g.follow(ctx, g.sentinels[i%len(g.sentinels)], moved)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// follow follows one sentinel until the connection breaks.
func (g *Group) follow(ctx context.Context, s node.Server, moved func(to string)) {
	var pinging sync.WaitGroup
	defer pinging.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(inquiry.Patience, cancel)
	defer silent.Stop()
	t, err := inquiry.Begin(ctx, kind, s)
	if err != nil {
		return
	}
	defer t.End()
	t.Put([]string{"SUBSCRIBE", "+switch-master"})
	if t.Flush() != nil {
		return
	}
	pinging.Go(func() {
		for tick := time.Tick(pingEvery); ; {
			select {
			case <-tick:
				t.Put([]string{"PING"})
				_ = t.Flush() // if it fails, the connection breaks
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		v, err := t.Read()
		if err != nil || v.Refusal() != nil {
			return
		}
		silent.Reset(2 * pingEvery)
		// The first reply confirms the subscription. The primary may have changed before that.
		if kind, text := message(&v); kind == "subscribe" || kind == "message" && strings.HasPrefix(text, g.name+" ") {
			if a, _ := g.Ask(ctx, s); a.Err == nil && g.search.Newest(a) {
				moved(a.Address)
			}
		}
	}
}

// message returns the kind of a message of a subscription, and its text.
func message(v *wire.Value) (kind, text string) {
	if v.Kind != '*' || len(v.Items) != 3 {
		return "", ""
	}
	return string(v.Items[0].Text), string(v.Items[2].Text)
}
