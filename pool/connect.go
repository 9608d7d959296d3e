package pool

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// connect makes a link that is ready for use, within the dial timeout.
func (n *Node) connect(ctx context.Context, last *link) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, n.opts.dialTimeout)
	defer cancel()
	for idle := n.pool.IdleCount(); ; idle-- {
		var socket dialed
		conn, err := n.pool.GetContext(context.WithValue(ctx, dialedKey{}, &socket))
		if err != nil {
			return nil, &ConnectError{Err: asError(err)}
		}
		l := &link{conn: conn, wire: &redigoWire{conn: conn}, broken: make(chan struct{})}
		if err = l.begin(ctx, last, socket); err == nil {
			return l, nil
		}
		l.wire.cut() // the pool must not keep it
		_ = conn.Close()
		// What a wrapped pool holds idle may have died unnoticed: it goes through that first.
		err = asError(err)
		if idle <= 0 || ctx.Err() != nil || errors.As(err, new(*ServerError)) {
			return nil, &ConnectError{Err: err}
		}
	}
}

// begin makes a link ready for use, over the socket if that is known.
func (l *link) begin(ctx context.Context, last *link, socket dialed) error {
	if socket.conn == nil {
		return l.greet(ctx, last)
	}
	// redigo says goodbye when it closes a connection, as TLS does, and that could take
	// long: the socket goes first.
	stop := context.AfterFunc(ctx, func() { _ = socket.socket.Close() })
	defer stop()
	err := l.greet(ctx, last)
	if err == nil {
		l.wire, err = newBareWire(socket)
	}
	if err != nil {
		_ = socket.socket.Close()
	}
	return err
}

// greet learns who is at the other end. Where answers were missing when the link
// before broke, it also ends that one on the server: what the server may still have
// to read from it (a SET of ours, say) must not take effect after what comes over
// this link.
func (l *link) greet(ctx context.Context, last *link) error {
	info, err := redis.Bytes(optional(redis.DoContext(l.conn, ctx, "INFO", "server")))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return err
	}
	if match := runID.FindSubmatch(info); match != nil {
		l.server = string(match[1])
	}
	l.up = upFor(info)
	l.client, err = redis.Int64(optional(redis.DoContext(l.conn, ctx, "CLIENT", "ID")))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return err
	}
	if last == nil || last.client == 0 || l.server == "" || last.server != l.server {
		return nil // there is none, or it cannot be named for sure
	}
	killed, err := optional(redis.DoContext(l.conn, ctx, "CLIENT", "KILL", "ID", last.client))
	_, l.fenced = killed.(int64) // how many: none, if it had ended already
	return err
}

var runID = regexp.MustCompile(`(?m)^run_id:(\S+)`)

// optional passes over the refusal of a command that the node can do without: the
// server may not know it, or may not permit it. But there are refusals that mean
// the whole connection.
func optional(reply any, err error) (any, error) {
	refusal := (*ServerError)(nil)
	if err == nil || !errors.As(asError(err), &refusal) {
		return reply, err
	}
	switch refusal.Code {
	case "NOAUTH", "DENIED", "BUSY": // no password; protected mode; and once the script has ended, the server will tell
		return nil, err
	}
	if strings.HasPrefix(refusal.Message, "ERR max number of clients") {
		return nil, err
	}
	return nil, nil
}
