package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// redigoConn is the transport over a connection of a wrapped pool, which has only redigo's API. redigo speaks RESP2 and
// does not limit the size of a reply.
type redigoConn struct {
	conn redis.Conn
	args []any

	mu     sync.Mutex
	closed bool // the pool may have lent the connection to another user
}

// dialLike makes a new connection with the dial function of a pool. It does not take one from the pool, because the
// pool's connections may be old.
func dialLike(ctx context.Context, pool *redis.Pool) (_ transport, err error) {
	c := &redigoConn{}
	if pool.DialContext != nil {
		c.conn, err = pool.DialContext(ctx)
	} else {
		c.conn, err = pool.Dial()
	}
	return c, err
}

// Address returns "": the pool knows it.
func (*redigoConn) Address() string { return "" }

// Put adds a command to the next Flush.
func (c *redigoConn) Put(words []string) {
	c.args = c.args[:0]
	for _, word := range words[1:] {
		c.args = append(c.args, word)
	}
	_ = c.conn.Send(words[0], c.args...)
}

func (c *redigoConn) Flush() error { return c.conn.Flush() }

// Read returns the next reply. It waits for it without a timeout.
func (c *redigoConn) Read() (wire.Value, error) {
	reply, err := redis.ReceiveWithTimeout(c.conn, 0)
	if refusal := redis.Error(""); errors.As(err, &refusal) {
		reply, err = refusal, nil
	}
	return redigoValue(reply), err
}

func (c *redigoConn) Ready() bool { return false } // redigo does not show its buffer

// redigoValue converts a reply of redigo to a value.
func redigoValue(reply any) wire.Value {
	switch reply := reply.(type) {
	case nil:
		return wire.Value{Kind: '_'}
	case int64:
		return wire.Value{Kind: ':', Num: reply}
	case string:
		return wire.Value{Kind: '+', Text: []byte(reply)}
	case []byte:
		return wire.Value{Kind: '$', Text: reply}
	case redis.Error:
		return wire.Value{Kind: '-', Text: []byte(reply)}
	case []any:
		v := wire.Value{Kind: '*'}
		for _, item := range reply {
			v.Items = append(v.Items, redigoValue(item))
		}
		return v
	}
	return wire.Value{Kind: '?', Text: fmt.Append(nil, reply)}
}

// Cut calls receive with a deadline that is over before it begins. redigo then closes the network connection and
// touches nothing else. Its public API has no other way to do so from outside.
func (c *redigoConn) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	over, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	_, _ = redis.ReceiveContext(c.conn, over)
}

// Close returns the connection to its pool, or closes a connection that dialLike made.
func (c *redigoConn) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	_ = c.conn.Close()
}
