package sim

import (
	"maps"
	"slices"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// effect is what a command of a script does to a server.
type effect uint8

const (
	reads  effect = iota
	writes        // also if it changes nothing
	grows         // it writes, and a server that is full refuses it
)

// effects are those of all commands that clients use for locks.
var effects = map[string]effect{
	"GETRANGE": reads, "PTTL": reads, "TIME": reads, "ZCARD": reads, "ZCOUNT": reads, "ZRANGEBYSCORE": reads, "ZREVRANGE": reads, "ZSCORE": reads,
	"PUBLISH": reads,
	"DEL":     writes, "PEXPIRE": writes, "PEXPIREAT": writes, "ZREM": writes, "ZREMRANGEBYSCORE": writes,
	"SET": grows, "INCRBY": grows, "ZADD": grows,
}

var commands = slices.Sorted(maps.Keys(effects))

// rights are what a server refuses at present.
type rights struct {
	forbidden string // a command that the user may not use; "" means none
	full      bool   // the server is at its maxmemory. It checks that until a script has come to its first write
	wrote     bool   // the script that runs has
}

// refusal ends a script.
type refusal wire.Value

var (
	noRight = wire.Value{Kind: '-', Text: []byte("NOPERM this user has no permissions to run a command of the script")}
	noRoom  = wire.Value{Kind: '-', Text: []byte("OOM command not allowed when used memory > 'maxmemory'.")}
)

// pcall is where a script comes to a command, by redis.pcall. It returns the error reply if the server refuses the command.
func (r *rights) pcall(command string) (refused wire.Value, ok bool) {
	if r.forbidden == "" && !r.full {
		return refused, true
	}
	of := effects[command]
	switch {
	case command == r.forbidden:
		return noRight, false
	case of == grows && r.full && !r.wrote:
		return noRoom, false
	}
	r.wrote = r.wrote || of != reads
	return refused, true
}

// call is where a script comes to commands, each by redis.call: the first that is refused ends the script. One by redis.pcall of
// which the script only returns the error is the same.
func (r *rights) call(commands ...string) {
	for _, command := range commands {
		if refused, ok := r.pcall(command); !ok {
			panic(refusal(refused))
		}
	}
}

// outcome runs a script, or a part of one as Lua's pcall does, and returns its reply.
func outcome(script func() wire.Value) (reply wire.Value) {
	defer func() {
		switch end := recover().(type) {
		case nil:
		case refusal:
			reply = wire.Value(end)
		default:
			panic(end)
		}
	}()
	return script()
}

// prove carries out what stands before a script that takes a lock, which was not granted on the connection before.
func (r *rights) prove(exists bool) {
	if r.call("PTTL"); !exists {
		r.call("SET", "GETRANGE", "PEXPIRE", "DEL")
	}
}
