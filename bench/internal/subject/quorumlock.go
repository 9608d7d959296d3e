package subject

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

type quorumlockClient struct {
	nodes  []*pool.Node
	locker *redlock.Locker
}

func openQuorumlock(s Setup) (Client, error) { return openLocker(s) }

func openFenced(s Setup) (Client, error) { return openLocker(s, redlock.WithFencing()) }

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
	c.locker, err = redlock.New(nodes, append(opts, redlock.WithTTL(TTL))...)
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
