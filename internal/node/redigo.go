package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// redigoConn is the transport over a connection of a wrapped pool, of which only redigo's API is known. redigo speaks
// RESP2 and does not bound what a server may send.
type redigoConn struct {
	conn redis.Conn
	args []any

	mu     sync.Mutex
	closed bool // the connection may be somebody else's
}

func (c *redigoConn) put(words []string) {
	c.args = c.args[:0]
	for _, word := range words[1:] {
		c.args = append(c.args, word)
	}
	_ = c.conn.Send(words[0], c.args...)
}

func (c *redigoConn) flush() error { return c.conn.Flush() }

func (c *redigoConn) read() (value, error) {
	reply, err := redis.ReceiveWithTimeout(c.conn, 0)
	if refusal := redis.Error(""); errors.As(err, &refusal) {
		reply, err = refusal, nil
	}
	return redigoValue(reply), err
}

func (c *redigoConn) ready() bool { return false } // its buffer cannot be looked into

// redigoValue turns a reply as redigo returns it into a value.
func redigoValue(reply any) value {
	switch reply := reply.(type) {
	case nil:
		return value{kind: '_'}
	case int64:
		return value{kind: ':', num: reply}
	case string:
		return value{kind: '+', text: []byte(reply)}
	case []byte:
		return value{kind: '$', text: reply}
	case redis.Error:
		return value{kind: '-', text: []byte(reply)}
	case []any:
		v := value{kind: '*'}
		for _, item := range reply {
			v.items = append(v.items, redigoValue(item))
		}
		return v
	}
	return value{kind: '?', text: fmt.Append(nil, reply)}
}

// cut makes a receive whose deadline is over before it begins. redigo closes the network connection then and touches
// nothing else; its public API has no other way to do so from outside.
func (c *redigoConn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	over, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	_, _ = redis.ReceiveContext(c.conn, over)
}

func (c *redigoConn) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	_ = c.conn.Close()
}
