package node

import (
	"context"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Client is a connection for a tool that looks at a server: it carries any command. It speaks RESP2, and its reader has the
// bounds of a node's. One goroutine may use it at a time.
type Client struct {
	conn *respConn
	err  error // why it is broken
}

// Connect connects to a server and logs in. It fails when ctx ends.
func Connect(ctx context.Context, s *Server) (*Client, error) {
	server, err := s.withCredentials(ctx)
	if err != nil {
		return nil, &nodeerr.ConnectError{Err: ofCaller(ctx, err)}
	}
	conn, err := dial(ctx, server)
	if err != nil {
		return nil, &nodeerr.ConnectError{Err: ofCaller(ctx, err)}
	}
	c := &Client{conn: conn}
	for _, words := range server.login() {
		if words[0] == "HELLO" {
			continue
		}
		if _, err := c.Do(ctx, words...); err != nil {
			c.Close()
			return nil, &nodeerr.ConnectError{Err: err}
		}
	}
	return c, nil
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

// DoAll sends commands with one write and returns their replies; here an error reply is one of them, a [*nodeerr.ServerError].
func (c *Client) DoAll(ctx context.Context, commands [][]string) (replies []any, err error) {
	if c.err != nil {
		return nil, c.err
	}
	defer context.AfterFunc(ctx, c.conn.cut)()
	defer func() {
		switch {
		case err == nil:
		case ctx.Err() != nil:
			err = context.Cause(ctx) // and not that the connection was cut
		default:
			err = asError(err)
		}
		c.err = err
	}()
	for _, words := range commands {
		c.conn.put(words)
	}
	if err := c.conn.flush(); err != nil {
		return nil, err
	}
	for len(replies) < len(commands) {
		v, err := c.conn.Read()
		if err != nil {
			return nil, err
		}
		if v.Kind != '>' { // what is pushed is no reply
			replies = append(replies, v.Plain())
		}
	}
	return replies, nil
}

// Receive returns what the server sends next unasked: a push, or a message of a subscription.
func (c *Client) Receive(ctx context.Context) (any, error) {
	if c.err != nil {
		return nil, c.err
	}
	defer context.AfterFunc(ctx, c.conn.cut)()
	v, err := c.conn.Read()
	if err != nil {
		if c.err = asError(err); ctx.Err() != nil {
			c.err = context.Cause(ctx)
		}
		return nil, c.err
	}
	return v.Plain(), nil
}

// ofCaller returns an error that matches one of package context only if the caller's context has ended.
func ofCaller(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return asError(err)
}

// Close closes the connection.
func (c *Client) Close() {
	c.conn.close()
	if c.err == nil {
		c.err = nodeerr.ErrClosed
	}
}
