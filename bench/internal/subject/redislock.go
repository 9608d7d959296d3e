package subject

import (
	"context"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type redislockClient struct {
	server *redis.Client
	client *redislock.Client
}

// openRedislock is redislock on go-redis, with as many connections as there are callers. It knows one server only.
func openRedislock(s Setup) (Client, error) {
	server := newGoredis(s, s.Addrs[0])
	return &redislockClient{server: server, client: redislock.New(server)}, nil
}

// newGoredis does not repeat commands: the lock libraries have their own ways to deal with a node that fails.
func newGoredis(s Setup, addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, PoolSize: s.Callers, MaxRetries: -1,
		DialTimeout: s.Timeout, ReadTimeout: s.Timeout, WriteTimeout: s.Timeout,
	})
}

func (c *redislockClient) Caller(name string) Caller { return &redislockCaller{client: c, name: name} }
func (c *redislockClient) Close() error              { return c.server.Close() }

type redislockCaller struct {
	client *redislockClient
	name   string
	lock   *redislock.Lock
}

func (c *redislockCaller) Acquire(ctx context.Context) (err error) {
	c.lock, err = c.client.client.Obtain(ctx, c.name, TTL, nil)
	return err
}

func (c *redislockCaller) Release(ctx context.Context) error { return c.lock.Release(ctx) }
