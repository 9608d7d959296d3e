// Package client asks servers what no lock needs.
package client

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// ConnectTimeout returns how long it may take until a server has answered on a new connection, if a command may take timeout: at least the
// default of programs (pool.WithDialTimeout), so that a server is used that is far away, or greets many clients at once.
func ConnectTimeout(timeout time.Duration) time.Duration { return max(timeout, 5*time.Second) }

// Client is a connection that carries any command. It speaks RESP2, and its reader has the bounds of a node's. One goroutine may use it at a time.
type Client struct {
	conn *node.RESPConn
	err  error // why it is broken
}

// Connect connects to a server and logs in. It fails when ctx ends, and with [nodeerr.ErrSentinel] if a Sentinel refuses the login.
func Connect(ctx context.Context, s *node.Server) (*Client, error) {
	conn, login, err := node.Dial(ctx, *s)
	if err != nil {
		return nil, &nodeerr.ConnectError{Err: ofCaller(ctx, err)}
	}
	c := &Client{conn: conn}
	if err := c.begin(ctx, login); err != nil {
		c.Close()
		return nil, &nodeerr.ConnectError{Err: err}
	}
	return c, nil
}

// begin logs in. A server that refuses that is asked what it is: a Sentinel knows neither the password nor the databases of the
// servers that it watches.
func (c *Client) begin(ctx context.Context, login [][]string) error {
	for _, words := range login {
		if words[0] == "HELLO" {
			continue
		}
		if _, err := c.Do(ctx, words...); err != nil {
			reply, _ := c.Do(ctx, "INFO", "server")
			info, _ := reply.(string)
			return cmp.Or(node.RefuseSentinel(info), err)
		}
	}
	return nil
}

// Do sends a command and returns its reply: a string, an int64, nil, or a []any of these, as for redigo's converters. The items of
// maps follow one another: key, value. An error reply is a [*nodeerr.ServerError], after which the Client goes on; after any
// other error it is broken.
func (c *Client) Do(ctx context.Context, words ...string) (any, error) {
	replies, err := c.DoAll(ctx, [][]string{words})
	if err != nil {
		return nil, err
	}
	if refusal, isError := replies[0].(*nodeerr.ServerError); isError {
		return nil, refusal
	}
	return replies[0], nil
}

// maxReplies bounds the replies that DoAll returns, in bytes.
const maxReplies = 64 << 20

// DoAll sends commands with one write and returns their replies; here an error reply is one of them, a [*nodeerr.ServerError].
func (c *Client) DoAll(ctx context.Context, commands [][]string) (replies []any, err error) {
	if c.err != nil {
		return nil, c.err
	}
	defer context.AfterFunc(ctx, c.conn.Cut)()
	defer func() {
		switch {
		case err == nil:
		case ctx.Err() != nil:
			err = context.Cause(ctx) // and not that the connection was cut
		default:
			err = node.AsError(err)
		}
		c.err = err
	}()
	for _, words := range commands {
		c.conn.Put(words)
	}
	if err := c.conn.Flush(); err != nil {
		return nil, err
	}
	for size := 0; len(replies) < len(commands); {
		v, err := c.conn.Read()
		if err != nil {
			return nil, err
		}
		if v.Kind == '>' { // what is pushed is no reply
			continue
		}
		if size += v.Size(); size > maxReplies {
			return nil, fmt.Errorf("%w: %d commands got more than %d bytes", nodeerr.ErrProtocol, len(commands), maxReplies)
		}
		replies = append(replies, plain(&v))
	}
	return replies, nil
}

// Receive returns what the server sends next unasked: a push, or a message of a subscription.
func (c *Client) Receive(ctx context.Context) (any, error) {
	if c.err != nil {
		return nil, c.err
	}
	defer context.AfterFunc(ctx, c.conn.Cut)()
	v, err := c.conn.Read()
	if err != nil {
		if c.err = node.AsError(err); ctx.Err() != nil {
			c.err = context.Cause(ctx)
		}
		return nil, c.err
	}
	return plain(&v), nil
}

// ofCaller returns an error that matches one of package context only if the caller's context has ended.
func ofCaller(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return node.AsError(err)
}

// Close closes the connection.
func (c *Client) Close() {
	c.conn.Close()
	if c.err == nil {
		c.err = nodeerr.ErrClosed
	}
}

// plain copies a value into one of Go's types.
func plain(v *wire.Value) any {
	if refusal := v.Refusal(); refusal != nil {
		return refusal
	}
	switch v.Kind {
	case '_':
		return nil
	case ':':
		return v.Num
	case '*', '~', '%', '>':
		items := make([]any, len(v.Items))
		for i := range v.Items {
			items[i] = plain(&v.Items[i])
		}
		return items
	}
	return string(v.Text)
}

// Master is the role of a master.
const Master = "master"

var role = regexp.MustCompile(`(?m)^role:(\S{1,20})`)

// Role returns the role that a reply to INFO replication has; "" if it has none.
func Role(info string) string {
	if match := role.FindStringSubmatch(info); match != nil {
		return match[1]
	}
	return ""
}

// RequireMaster returns the error of a replica, of code READONLY, if a reply to INFO replication is that of one.
func RequireMaster(info string) error {
	if is := Role(info); is != "" && is != Master {
		return wire.NewServerError("READONLY role:" + is)
	}
	return nil
}
