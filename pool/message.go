package pool

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/lua"
)

// minJoined is how many commands are joined at least: the joined script has work of its own, which for two or three costs
// the server as much as it saves.
const minJoined = 4

// message is what a server takes for one command, and gives one reply to: a command, or several that the joined script
// carries out in their order.
type message struct {
	commands []taken
	source   bool // with the source of its script
}

// taken is a command that was taken from the queue.
type taken struct {
	cmd   *Command
	again bool // sent once more: by itself, with the source of its script
}

// joins says whether the joined script can carry the command out.
func (c *Command) joins() bool {
	return c.script == lua.FencedAcquire() || c.script == lua.FencedRelease()
}

// joined is a message of several commands that has not been replied to.
type joined struct {
	message  uint64 // its number on the link, from 1
	commands int
}

// packLocked makes messages of what was taken.
func (l *link) packLocked() {
	l.batch = l.batch[:0]
	for rest := l.taken; len(rest) > 0; {
		n := 1
		if run := joinable(rest); run >= minJoined && !l.apart {
			n = run
		}
		m := message{commands: rest[:n]}
		l.written++
		if n > 1 {
			m.source = l.teaches(lua.Joined())
			l.joined = append(l.joined, joined{l.written, n})
		} else {
			m.source = rest[0].again || l.teaches(rest[0].cmd.script)
		}
		l.batch = append(l.batch, m)
		rest = rest[n:]
	}
}

// joinable returns how many commands at the beginning can be joined. An acquire does not follow a release that is the first: a
// server that is out of memory refuses what takes more of it, but not within a script that has written before.
func joinable(commands []taken) int {
	for i, t := range commands {
		if !t.cmd.joins() || t.again || t.cmd.kind == grant && commands[0].cmd.kind != grant {
			return i
		}
	}
	return len(commands)
}

// words appends the message as Redis takes it.
func (m message) words(words []string) []string {
	if len(m.commands) == 1 {
		return m.commands[0].cmd.words(words, m.source)
	}
	words = append(run(words, lua.Joined(), m.source), strconv.Itoa(2*len(m.commands)))
	shared := []string{"", ""} // TTL and time, which the acquires have in common as a rule
	if first := m.commands[0].cmd; first.kind == grant {
		shared = first.args[1:3]
	}
	forms := make([]byte, 0, batchSize)
	for _, t := range m.commands {
		words = append(words, t.cmd.key, t.cmd.counter)
		switch args := t.cmd.args; {
		case t.cmd.kind != grant:
			forms = append(forms, 'r')
		case slices.Equal(args[1:], shared):
			forms = append(forms, 's')
		default:
			forms = append(forms, '0'+byte(len(args)))
		}
	}
	words = append(words, string(forms), shared[0], shared[1])
	for i, t := range m.commands {
		if forms[i] == 's' {
			words = append(words, t.cmd.args[0])
		} else {
			words = append(words, t.cmd.args...)
		}
	}
	return words
}

// repliedLocked counts a reply, and returns how many commands its message had.
func (l *link) repliedLocked() int {
	l.replies++
	if len(l.joined) == 0 || l.joined[0].message != l.replies {
		return 1
	}
	n := l.joined[0].commands
	l.joined = l.joined[1:]
	return n
}

// partsLocked takes the reply to n joined commands apart. Else err says what the reply is to each of them; repeat: none has been
// carried out, and each may be by itself.
func (l *link) partsLocked(value any, err error, n int) (parts []any, repeat bool, _ error) {
	if err == nil {
		if parts, _ = value.([]any); len(parts) == n {
			return parts, false, nil
		}
		l.apart = true
		return nil, false, fmt.Errorf("%w: %d answers to %d commands", ErrProtocol, len(parts), n)
	}
	switch code(err) {
	case "NOSCRIPT":
		l.taught = slices.DeleteFunc(l.taught, func(s *lua.Script) bool { return s == lua.Joined() })
		return nil, true, err
	case "NOPERM": // one of the keys, it may be
		return nil, true, err
	case "CROSSSLOT": // the server is a node of a cluster
		l.apart = true
		return nil, true, err
	case "ERR":
		l.apart = true
	}
	return nil, false, err
}

// answer is what a server said to a command.
type answer struct {
	order   order
	value   any
	err     error
	watched bool // it was asked to tell of changes to what this reads
}

// take takes one of several that came together.
func (a *answer) take(part any) {
	a.value = part
	if refusal, ok := part.(redis.Error); ok {
		a.value, a.err = nil, refusal
	}
}

func (a *answer) tell(server string) {
	kind := a.order.cmd.kind
	reply := classify(kind, a.value, a.err)
	reply.Server = server
	reply.Watched = a.watched && kind == look && (reply.Answer == Yes || reply.Answer == No)
	a.order.end(reply)
}
