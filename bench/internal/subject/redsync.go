package subject

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

type redsyncClient struct {
	client  *redsync.Redsync
	options []redsync.Option
	pools   []io.Closer
}

// idlePerCaller is how many idle connections a pool keeps for each caller: with fail-fast, what a majority did not wait
// for holds some while the caller goes on. None is made that is not needed.
const idlePerCaller = 4

// openRedsync is redsync on redigo, with idle connections for all callers.
func openRedsync(s Setup) (Client, error) { return redigoRedsync(s) }

// openRedsyncFailFast does not wait for the nodes that are left when a majority has answered.
func openRedsyncFailFast(s Setup) (Client, error) {
	return redigoRedsync(s, redsync.WithFailFast(true))
}

func redigoRedsync(s Setup, options ...redsync.Option) (Client, error) {
	c := newRedsyncClient(options...)
	pools := make([]redsyncredis.Pool, len(s.Addrs))
	for i, addr := range s.Addrs {
		p := &redis.Pool{MaxIdle: idlePerCaller * s.Callers, Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", addr,
				redis.DialConnectTimeout(s.Timeout), redis.DialReadTimeout(s.Timeout), redis.DialWriteTimeout(s.Timeout))
		}}
		c.pools = append(c.pools, p)
		pools[i] = redsyncredigo.NewPool(p)
	}
	c.client = redsync.New(pools...)
	return c, nil
}

// openRedsyncGoredis is redsync on go-redis, with as many connections as there are callers.
func openRedsyncGoredis(s Setup) (Client, error) {
	c := newRedsyncClient()
	pools := make([]redsyncredis.Pool, len(s.Addrs))
	for i, addr := range s.Addrs {
		p := newGoredis(s, addr)
		c.pools = append(c.pools, p)
		pools[i] = redsyncgoredis.NewPool(p)
	}
	c.client = redsync.New(pools...)
	return c, nil
}

func newRedsyncClient(options ...redsync.Option) *redsyncClient {
	// A Mutex that waits gives up after 32 tries otherwise. Its pauses stay as they are, 50 to 250 ms.
	return &redsyncClient{options: append(options, redsync.WithExpiry(TTL), redsync.WithTries(math.MaxInt))}
}

func (c *redsyncClient) Caller(name string) Caller { return &redsyncCaller{client: c, name: name} }

func (c *redsyncClient) Close() error {
	var all []error
	for _, p := range c.pools {
		all = append(all, p.Close())
	}
	return errors.Join(all...)
}

type redsyncCaller struct {
	client *redsyncClient
	name   string
	mutex  *redsync.Mutex
}

func (c *redsyncCaller) Acquire(ctx context.Context) error {
	c.mutex = c.client.client.NewMutex(c.name, c.client.options...)
	return c.mutex.TryLockContext(ctx)
}

// Wait implements [Waiter].
func (c *redsyncCaller) Wait(ctx context.Context) error {
	c.mutex = c.client.client.NewMutex(c.name, c.client.options...)
	return c.mutex.LockContext(ctx)
}

func (c *redsyncCaller) Release(ctx context.Context) error {
	_, err := c.mutex.UnlockContext(ctx)
	return err
}
