package node

import "github.com/quorumlock/quorumlock/internal/wire"

// own is what a command of the node's own is for.
type own uint8

const (
	callers own = iota // none of its own
	ping
	tracking
	subscription // its beginning or end
)

// call makes a command of the node's own, of these words. Nobody receives the reply.
func (o own) call(channel string, words ...string) call {
	cmd := &wire.Command{Key: channel, Parse: func(v *wire.Value) wire.Reply { return wire.YesIf(o.confirmedBy(v), v) }}
	return call{cmd: cmd.With(words...), own: o}
}

func (o own) confirmedBy(v *wire.Value) bool {
	switch o {
	case ping:
		return v.Kind == '+' && string(v.Text) == "PONG"
	case tracking:
		return v.IsOK()
	}
	return v.Kind == '>'
}

// Publish sends message to whoever has subscribed to channel.
func Publish(channel, message string) *wire.Command {
	cmd := &wire.Command{Parse: func(v *wire.Value) wire.Reply { return wire.YesIf(v.Kind == ':', v) }} // how many have received it
	return cmd.With("PUBLISH", channel, message)
}
