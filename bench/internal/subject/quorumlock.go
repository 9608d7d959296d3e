package subject

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

type quorumlockClient struct {
	nodes  []*pool.Node
	locker *redlock.Locker
}

func openQuorumlock(s Setup) (Client, error) { return openLocker(s) }

// openHandoff returns what opens a client whose locks go from hand to hand for as long as max before it is another process's turn.
func openHandoff(max time.Duration, opts ...redlock.Option) func(Setup) (Client, error) {
	return func(s Setup) (Client, error) { return openLocker(s, append(opts, redlock.WithLocalHandoff(max))...) }
}

func openFenced(s Setup) (Client, error) { return openLocker(s, redlock.WithFencing()) }

// openLock opens a client that takes free locks, too, with Lock.
func openLock(s Setup) (Client, error) {
	c, err := openLocker(s)
	return lockClient{c}, err
}

func openLocker(s Setup, opts ...redlock.Option) (Client, error) {
	urls := make([]string, len(s.Addrs))
	for i, addr := range s.Addrs {
		urls[i] = "redis://" + addr
	}
	nodes, err := pool.Open(urls, pool.WithTimeout(s.Timeout))
	if err != nil {
		return nil, err
	}
	c := &quorumlockClient{nodes: nodes}
	// Warnings are made and not shown, as nodes fail in some benchmarks.
	logger := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c.locker, err = redlock.New(nodes, append(opts, redlock.TTL(TTL), redlock.WithLogger(logger))...)
	if err != nil {
		return nil, errors.Join(err, c.closeNodes())
	}
	return c, nil
}

func (c *quorumlockClient) Caller(name string) Caller {
	return &quorumlockCaller{locker: c.locker, name: name}
}

func (c *quorumlockClient) Close() error { return errors.Join(c.locker.Close(), c.closeNodes()) }

func (c *quorumlockClient) closeNodes() error {
	var all []error
	for _, n := range c.nodes {
		all = append(all, n.Close())
	}
	return errors.Join(all...)
}

type quorumlockCaller struct {
	locker *redlock.Locker
	name   string
	lock   *redlock.Lock
}

func (c *quorumlockCaller) Acquire(ctx context.Context) (err error) {
	c.lock, err = c.locker.TryLock(ctx, c.name)
	return err
}

// Wait implements [Waiter].
func (c *quorumlockCaller) Wait(ctx context.Context) (err error) {
	c.lock, err = c.locker.Lock(ctx, c.name)
	return err
}

func (c *quorumlockCaller) Release(ctx context.Context) error { return c.lock.Unlock(ctx) }

// lockClient has callers for which Acquire is what Wait is.
type lockClient struct{ Client }

func (c lockClient) Caller(name string) Caller { return lockCaller{c.Client.Caller(name).(Waiter)} }

type lockCaller struct{ Waiter }

func (c lockCaller) Acquire(ctx context.Context) error { return c.Wait(ctx) }

// openRead opens a client whose callers read under locks that they share.
func openRead(s Setup) (Client, error) {
	c, err := openLocker(s)
	if err != nil {
		return nil, err
	}
	return readClient{c.(*quorumlockClient)}, nil
}

// readClient implements [Writers].
type readClient struct{ *quorumlockClient }

func (c readClient) Caller(name string) Caller {
	return &readCaller{quorumlockCaller{locker: c.locker, name: name}}
}

// Writer returns one who takes the lock with Lock, and keeps readers out.
func (c readClient) Writer(name string) Caller { return lockClient{c.quorumlockClient}.Caller(name) }

type readCaller struct{ quorumlockCaller }

func (c *readCaller) Acquire(ctx context.Context) (err error) {
	c.lock, err = c.locker.Lock(ctx, c.name, redlock.Shared())
	return err
}

// Slots is how many slots there are of a name.
const Slots = 10

// openSlot opens a client whose callers take one of [Slots] slots.
func openSlot(s Setup) (Client, error) {
	c, err := openLocker(s)
	if err != nil {
		return nil, err
	}
	return slotClient{c.(*quorumlockClient)}, nil
}

type slotClient struct{ *quorumlockClient }

func (c slotClient) Caller(name string) Caller {
	return &slotCaller{quorumlockCaller{locker: c.locker, name: name}}
}

type slotCaller struct{ quorumlockCaller }

func (c *slotCaller) Acquire(ctx context.Context) (err error) {
	c.lock, err = c.locker.Lock(ctx, c.name, redlock.Slots(Slots))
	return err
}

// openAll returns what opens a client whose callers take the locks of some names together. The names begin with that of the caller.
func openAll(names int, opts ...redlock.Option) func(Setup) (Client, error) {
	return func(s Setup) (Client, error) {
		c, err := openLocker(s, opts...)
		if err != nil {
			return nil, err
		}
		return allClient{c.(*quorumlockClient), names}, nil
	}
}

type allClient struct {
	*quorumlockClient
	names int
}

func (c allClient) Caller(name string) Caller {
	names := make([]string, c.names)
	for i := range names {
		names[i] = name + "-" + strconv.Itoa(i)
	}
	return &allCaller{locker: c.locker, names: names}
}

type allCaller struct {
	locker *redlock.Locker
	names  []string
	locks  *redlock.Locks
}

func (c *allCaller) Acquire(ctx context.Context) (err error) {
	c.locks, err = c.locker.LockAll(ctx, c.names)
	return err
}

func (c *allCaller) Release(ctx context.Context) error { return c.locks.Unlock(ctx) }
