package inquiry

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Kind is what the servers are that can be asked.
type Kind struct {
	Name  string // in errors, such as "sentinel"
	IsNot string // about a server that is of another kind, such as "it is no Sentinel"
}

// Error is the reason why a server did not say where the other server is.
type Error struct {
	Server string // the kind that it should be of, and its address
	Err    error
}

func (e *Error) Error() string { return e.Server + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// lacks matches the refusal of a server that has no such command, or has cluster mode switched off.
var lacks = regexp.MustCompile(`(?i)^ERR (unknown command|this instance has cluster support disabled)`)

// Talk is a connection to one server that is asked.
type Talk struct {
	*node.RESPConn
	ctx   context.Context
	kind  Kind
	addr  string
	uncut func() bool
}

// Begin connects to a server that should be of some kind, and logs in. The connection breaks when ctx ends.
func Begin(ctx context.Context, kind Kind, s node.Server) (*Talk, error) {
	conn, login, err := node.Dial(ctx, s)
	t := &Talk{RESPConn: conn, ctx: ctx, kind: kind, addr: s.Address}
	if err != nil {
		return nil, t.error(err)
	}
	t.uncut = context.AfterFunc(ctx, conn.Cut)
	login = slices.DeleteFunc(login, func(words []string) bool { return words[0] == "HELLO" }) // it speaks RESP2
	if err := t.Ask(login, func(int, *wire.Value) error { return nil }); err != nil {
		t.End()
		return nil, err
	}
	return t, nil
}

// Ask sends commands with one write, and passes the reply to each to read. It fails at the first error reply.
func (t *Talk) Ask(commands [][]string, read func(i int, v *wire.Value) error) error {
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
			if lacks.MatchString(refusal.Message) {
				return t.error(fmt.Errorf("%w: %s", refusal, t.kind.IsNot))
			}
			return t.error(refusal)
		}
		if err := read(i, &v); err != nil {
			return t.error(err)
		}
	}
	return nil
}

// error adds which server it is about.
func (t *Talk) error(err error) error {
	if t.ctx.Err() != nil {
		err = t.ctx.Err() // and not that the connection was cut
	}
	return &Error{t.kind.Name + " " + t.addr, node.AsError(err)}
}

// End closes the connection.
func (t *Talk) End() {
	t.uncut()
	t.Close()
}

// maxHost is how long the name of a host may be (RFC 1035).
const maxHost = 255

// Host returns the host that a server has sent.
func Host(v *wire.Value) (string, error) {
	host := string(v.Text)
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if !v.IsText() || len(host) == 0 || len(host) > maxHost || strings.ContainsFunc(host, odd) {
		return "", wire.Unexpected(v).Err
	}
	return host, nil
}
