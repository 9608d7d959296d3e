package tenants_test

import (
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
)

// patience is how long a tenant waits for an answer.
const patience = 5 * time.Second

// tenant is a client of the servers with all rights, and a connection to each. One goroutine uses it at a time.
type tenant struct {
	w     *world
	conns [size]redis.Conn
}

func (w *world) newTenant() *tenant {
	c := &tenant{w: w}
	w.t.Cleanup(func() {
		for i := range c.conns {
			c.drop(i)
		}
	})
	return c
}

func (c *tenant) drop(i int) {
	if c.conns[i] != nil {
		_ = c.conns[i].Close()
		c.conns[i] = nil
	}
}

// do runs a command on server i, twice if the connection turns out to be broken.
func (c *tenant) do(i int, command string, args ...any) (reply any, err error) {
	for range 2 {
		if c.conns[i] == nil {
			c.conns[i], err = redis.Dial("tcp", c.w.processes[i].Addr(), redis.DialConnectTimeout(patience),
				redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
			if err != nil {
				return nil, err
			}
		}
		reply, err = c.conns[i].Do(command, args...)
		if c.conns[i].Err() == nil {
			return reply, err
		}
		c.drop(i)
	}
	return nil, err
}

// must runs a command until it is done.
func (c *tenant) must(i int, command string, args ...any) any {
	deadline := time.Now().Add(bound)
	for {
		reply, err := c.do(i, command, args...)
		if err == nil {
			return reply
		}
		if time.Now().After(deadline) {
			assert.NoError(c.w.t, err, "%s on server %d", command, i)
			return nil
		}
		<-time.After(10 * time.Millisecond)
	}
}

// config sets an option of server i, and returns what sets it back.
func (c *tenant) config(i int, name, value string) (undo func()) {
	before, err := redis.Strings(c.do(i, "CONFIG", "GET", name))
	if err != nil || len(before) != 2 {
		return func() {}
	}
	if _, err := c.do(i, "CONFIG", "SET", name, value); err != nil {
		return func() {}
	}
	return func() { c.must(i, "CONFIG", "SET", name, before[1]) }
}

// keys returns the keys on server i that match a pattern.
func (c *tenant) keys(i int, pattern string) []string {
	found, _ := redis.Strings(c.must(i, "KEYS", pattern), nil)
	return found
}
