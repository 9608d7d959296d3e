package sentinel

import (
	"context"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// talk is a connection to one sentinel.
type talk struct {
	*node.RESPConn
	ctx     context.Context
	address string
	uncut   func() bool
}

// begin connects to a sentinel and logs in. The connection breaks when ctx ends.
func begin(ctx context.Context, s node.Server) (*talk, error) {
	conn, login, err := node.Dial(ctx, s)
	t := &talk{RESPConn: conn, ctx: ctx, address: s.Address}
	if err != nil {
		return nil, t.error(err)
	}
	t.uncut = context.AfterFunc(ctx, conn.Cut)
	login = slices.DeleteFunc(login, func(words []string) bool { return words[0] == "HELLO" }) // it speaks RESP2
	if err := t.ask(login, func(int, *wire.Value) error { return nil }); err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

// ask sends commands with one write, and passes the reply to each to read. It fails at the first error reply.
func (t *talk) ask(commands [][]string, read func(i int, v *wire.Value) error) error {
	for _, words := range commands {
		t.Put(words)
	}
	if err := t.Flush(); err != nil {
		return t.error(err)
	}
	for i := range commands {
		v, err := t.Read()
		if err != nil {
			return t.error(err)
		}
		if refusal := v.Refusal(); refusal != nil {
			return t.error(refusal)
		}
		if err := read(i, &v); err != nil {
			return t.error(err)
		}
	}
	return nil
}

// error adds which sentinel it is about.
func (t *talk) error(err error) error {
	if t.ctx.Err() != nil {
		err = t.ctx.Err() // and not that the connection was cut
	}
	return fmt.Errorf("sentinel %s: %w", t.address, node.AsError(err))
}

// end closes the connection.
func (t *talk) end() {
	t.uncut()
	t.Close()
}
