package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// lockChecks take a lock. They are the last ones: what another check has found explains why that fails.
var lockChecks = []check{
	{name: prepareCheck, docs: "operations.md#replacing-a-node", node: prepared, why: "Programs cannot stamp it either: with the restart guard the node grants no locks.",
		when: func(o *Options) bool { return o.Prepare && o.RestartGuard > 0 }},
	{name: "lock", docs: answersDocs, node: lock, why: grantsNone},
}

// trialTTL is the TTL of the lock that is taken. It is long enough for a server that takes long over each command.
const trialTTL = 30 * time.Second

// node makes a node of the server, as a program does, with a restart guard unless maxTTL is 0. It has found out on what the connection is
// closed.
func (f *facts) node(ctx context.Context, o *Options, maxTTL time.Duration) *node.Node {
	n := node.New(node.Config{
		Addr: f.addr, Server: f.to, Timeout: o.Timeout, DialTimeout: client.ConnectTimeout(o.Timeout), MaxOverdue: time.Second, MaxTTL: maxTTL,
	})
	for len(f.hangUps) > 0 && node.HungUp(ask(ctx, n, o)) && ctx.Err() == nil {
		<-time.After(10 * time.Millisecond)
	}
	return n
}

// outcome receives the reply to a command. It has room for one.
type outcome chan error

// Reply implements [wire.Receiver].
func (o outcome) Reply(_ wire.Tag, r *wire.Reply) { o <- r.Err }

// ask returns why a node would grant no lock.
func ask(ctx context.Context, n *node.Node, o *Options) error {
	answer := make(outcome, 1)
	if err := n.Send(time.Now(), form.Probe(o.Prefix, rand.Text(), false), answer, wire.Tag{}); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryLock takes, extends, shows and releases a lock of that name on the server alone.
func (f *facts) tryLock(ctx context.Context, o *Options, name string) (err error) {
	n := (*pool.Node)(f.node(ctx, o, 0))
	silent := redlock.WithLogger(slog.New(slog.DiscardHandler)) // the findings say what is wrong
	opts := []redlock.Option{silent, redlock.TTL(trialTTL), redlock.WithKeyPrefix(o.Prefix)}
	if o.Fencing {
		opts = append(opts, redlock.WithFencing(), redlock.WithFenceTTL(time.Minute))
		defer func() { err = errors.Join(err, f.forget(ctx, o, "{"+o.Prefix+name+"}:fence")) }()
	}
	defer n.Close()
	locker, err := redlock.New([]*pool.Node{n}, opts...)
	if err != nil {
		return err
	}
	defer locker.Close()
	held, err := locker.TryLock(ctx, name)
	if err != nil {
		return err
	}
	if err := held.Extend(ctx, 2*trialTTL); err != nil {
		_ = held.Unlock(ctx) // the reason of the failure says more
		return err
	}
	state, err := locker.Inspect(ctx, name)
	if err == nil && (len(state.Holders) != 1 || state.Holders[0].Token != held.Token() || state.Holders[0].Fence != held.Fence()) {
		err = errors.New("the node does not show the lock that it has granted")
	}
	if err = errors.Join(err, held.Unlock(ctx)); err != nil || !o.Shared {
		return err
	}
	reader, err := locker.TryLock(ctx, name, redlock.Shared())
	if err != nil {
		return err
	}
	if err := errors.Join(reader.Extend(ctx, 2*trialTTL), reader.Unlock(ctx)); err != nil {
		return err
	}
	slot, err := locker.TryLock(ctx, name, redlock.Slots(1))
	if err != nil {
		return err
	}
	return errors.Join(slot.Extend(ctx, 2*trialTTL), slot.Unlock(ctx))
}

// forget deletes the counter that the trial has left.
func (f *facts) forget(ctx context.Context, o *Options, counter string) error {
	c, err := f.connect(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close()
	_, _ = c.do(ctx, "DEL", f.key(counter)) // if it is refused, the TTL of the counter ends it
	return c.err
}

// explains are the checks that have found why a lock could not be taken.
var explains = []string{"version", "proxy", "role", "min-replicas", "cluster", "state", "memory", "snapshot", "aof-errors", "commands", "rights-locks", "rights-fencing", "rights-shared"}

func lock(x *examination, f *facts) []Finding {
	if f.lock == nil || x.found(f, explains...) {
		return nil
	}
	err := f.lock
	if quorum := (*redlock.QuorumError)(nil); errors.As(err, &quorum) {
		err = quorum.Nodes[0].Err
	}
	return fault(fmt.Sprintf("a lock could not be taken, extended and released: %s", printable(display.Error(err))),
		"see what the error means in docs/failures.md")
}
