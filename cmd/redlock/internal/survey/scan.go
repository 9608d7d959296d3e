package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// page is how many keys a server looks at for one SCAN, during which it does nothing else.
const page = 200

// lister goes through the keys of one server.
type lister struct {
	*table
	node    int
	server  *node.Server
	client  *client.Client
	paged   bool   // a page has come
	process string // see NodeReport

	// What the next messages are to ask:
	keys   []string        // whose values to read: those of the last page, without the tag
	shared []sharedKey     // whose sharers to read
	waits  []string        // who waits for these keys
	owners []string        // whether the processes of these owners listen
	known  map[string]bool // the owners that were asked for, or will be

	blind bool // the server does not show who shares a lock, or there is too little room for them
	mute  bool // the server does not say who listens
}

// message is commands that are sent together, with what takes their replies.
type message struct {
	commands [][]string
	parts    []part
}

type part struct {
	commands int
	take     func(replies []any) error
}

// add adds commands whose replies take gets.
func (m *message) add(take func(replies []any) error, commands ...[]string) {
	m.commands, m.parts = append(m.commands, commands...), append(m.parts, part{len(commands), take})
}

// send sends a message, and takes the replies.
func (l *lister) send(ctx context.Context, m *message) error {
	replies, err := l.askMaster(ctx, m.commands)
	if err != nil {
		return err
	}
	for _, p := range m.parts {
		if err := p.take(replies[:p.commands]); err != nil {
			return err
		}
		replies = replies[p.commands:]
	}
	return nil
}

// list adds what the server holds to the table, within NodeLimit. It needs that bound: a server may go on naming keys for ever.
func (l *lister) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.NodeLimit, ErrTooManyKeys)
	defer cancel()
	err := l.scan(ctx)
	switch {
	case !errors.Is(err, ErrTooManyKeys):
		return err
	case !l.paged:
		return nodeerr.ErrTimeout
	}
	return fmt.Errorf("%w within %s", ErrTooManyKeys, l.NodeLimit)
}

// scan goes through the keys until there are no more, or ctx ends.
func (l *lister) scan(ctx context.Context) (err error) {
	if err := l.connect(ctx); err != nil {
		return err
	}
	defer l.client.Close()
	if err := l.introduce(ctx); err != nil {
		return err
	}
	// A message asks for the next page, and for what is still to be read of those before it.
	for cursor := "0"; cursor != "" || len(l.keys)+len(l.shared)+len(l.waits)+len(l.owners) > 0; {
		m, keys := &message{}, l.keys
		l.keys = nil
		l.askSharers(m)
		l.askPresence(m)
		m.add(func(replies []any) error { return l.take(keys, replies) }, l.readAll(keys)...)
		if cursor != "" {
			m.add(func(replies []any) (err error) {
				cursor, l.keys, err = ParsePage(replies[0])
				l.keys, l.paged = l.admit(l.own(l.keys)), err == nil
				return err
			}, []string{"SCAN", cursor, "MATCH", l.match(), "COUNT", strconv.Itoa(page)})
		}
		if err := l.send(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// connect connects to the server.
func (l *lister) connect(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Connect, nodeerr.ErrTimeout)
	defer cancel()
	if l.client, err = client.Connect(ctx, l.server); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// introduce makes sure that no server is asked twice, as far as it says which one it is.
func (l *lister) introduce(ctx context.Context) error {
	replies, err := l.ask(ctx, [][]string{{"INFO", "server"}})
	if err != nil {
		return err
	}
	info, _ := textOf(replies[0]) // a refusal says nothing
	if err := node.RefuseSentinel(info); err != nil {
		return err
	}
	if l.process = node.Identity(info).Process; l.process != "" {
		return l.identify(l.process, l.server.Address)
	}
	return nil
}

// askMaster sends commands to the server and returns the replies, of a server that shows behind them that it is a master. In
// a cluster it must have the slot of the node, all of it: without a part it may have left out keys.
func (l *lister) askMaster(ctx context.Context, commands [][]string) ([]any, error) {
	n := len(commands)
	commands = append(append(commands, client.AskSlot(l.server, l.Prefix)...), []string{"INFO", "replication"})
	replies, err := l.ask(ctx, commands)
	if err != nil {
		return nil, err
	}
	last := len(replies) - 1
	if info, isText := replies[last].(string); isText { // a refusal says nothing
		if err := client.RequireMaster(info); err != nil {
			return nil, err
		}
	}
	return replies[:n], client.ReadSlot(replies[n:last])
}

// ask sends commands to the server and returns the replies, within the timeout.
func (l *lister) ask(ctx context.Context, commands [][]string) ([]any, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Timeout, nodeerr.ErrTimeout)
	defer cancel()
	replies, err := l.client.DoAll(ctx, commands)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return replies, err
}

// match returns the pattern of the keys.
func (l *lister) match() string {
	return Literally(l.server.Tag+l.Prefix) + cmp.Or(l.Pattern, "*")
}

// own returns the keys that have the tag of the node, without it. Others are not of the node, whatever the server has made
// of the pattern.
func (l *lister) own(keys []string) (own []string) {
	for _, key := range keys {
		if key, is := strings.CutPrefix(key, l.server.Tag); is {
			own = append(own, key)
		}
	}
	return own
}

// Literally returns the pattern that matches a text and nothing else.
func Literally(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// readAll returns the commands that read keys: for each its TTL, and what it holds up to a byte more than a token may have.
func (l *lister) readAll(keys []string) [][]string {
	commands := make([][]string, 0, 2*len(keys)+3) // with room for some more
	for _, key := range keys {
		key = l.server.Tag + key
		commands = append(commands, []string{"PTTL", key}, []string{"GETRANGE", key, "0", strconv.Itoa(wire.MaxToken)})
	}
	return commands
}

// ParsePage returns the keys in a reply to SCAN, and the cursor for the next one, "" if there is none.
func ParsePage(reply any) (cursor string, keys []string, err error) {
	parts, isPage := reply.([]any)
	if !isPage || len(parts) != 2 {
		return "", nil, unexpected(reply)
	}
	found, isList := parts[1].([]any)
	if !isList {
		return "", nil, unexpected(parts[1])
	}
	if cursor, err = textOf(parts[0]); err != nil {
		return "", nil, err
	}
	if cursor == "0" {
		cursor = ""
	}
	for _, item := range found {
		key, err := textOf(item)
		if err != nil {
			return "", nil, err
		}
		keys = append(keys, key)
	}
	return cursor, keys, nil
}

// textOf returns a reply that has to be a text.
func textOf(reply any) (string, error) {
	if text, isText := reply.(string); isText {
		return text, nil
	}
	return "", unexpected(reply)
}

// unexpected returns the error of a reply: that of the server, or that Redis does not reply so.
func unexpected(reply any) error {
	if refusal, isRefusal := reply.(*nodeerr.ServerError); isRefusal {
		return refusal
	}
	return fmt.Errorf("%w: %T", nodeerr.ErrProtocol, reply)
}

// take adds the replies to readAll to the table.
func (l *lister) take(keys []string, replies []any) error {
	views := make([]View, len(keys))
	for i, key := range keys {
		v, err := l.view(replies[2*i:])
		if err != nil {
			return err
		}
		switch views[i] = v; {
		case v.read.IsZero():
			continue
		case display.Several(v.Kind):
			l.shared = append(l.shared, sharedKey{key, v.Kind})
		}
		l.wonder(key, &views[i])
	}
	l.add(keys, views)
	return nil
}

// view returns what the server holds under a key, by the first two of the replies. It is zero if that is nothing.
func (l *lister) view(replies []any) (v View, err error) {
	ms, isNumber := replies[0].(int64)
	if !isNumber {
		return v, unexpected(replies[0])
	}
	if ms < -1 {
		return v, nil // it is gone
	}
	v = View{Node: l.node, TTL: wire.TTL(ms), read: time.Now()}
	switch value, err := textOf(replies[1]); {
	case errors.Is(err, nodeerr.ErrForeign) || len(value) > wire.MaxToken:
		v.Other = true
	case err != nil:
		return v, err
	default:
		if v.Kind = redlock.Kind(form.KindOf(value).String()); !display.Several(v.Kind) {
			v.Token, v.Fence = token.Split(value, l.Fencing)
		}
	}
	return v, nil
}
