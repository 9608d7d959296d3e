package sim_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/sim"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Random commands of a user who lacks a right, or on a server that is full: each script stops where that of a real server does, with
// the same answer, and leaves the same.
func TestKeyspace_RefusesCommandsAsRedisDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	server := testredis.Lasting(t, testredis.Real(t, 1)[0])
	f := newRefuser(t, server, func(command string) bool { return command[0] != 'Z' && command != "PEXPIREAT" })
	for n := range uint64(40) { // each time the first acquires have to prove the rights of the user
		p := newPair(t, seed+n, server, f)
		p.redis("FLUSHALL")
		for step := range 100 {
			p.step(step)
		}
		f.proven = wire.Proven{}
	}
	f.refusals(t, 45)
}

// Likewise about keys that some share.
func TestKeyspace_RefusesCommandsAboutSharersAsRedisDoes(t *testing.T) {
	server := testredis.Lasting(t, testredis.Real(t, 1)[0])
	s := onRedis(t, server, newRefuser(t, server, func(command string) bool { return command != "INCRBY" }))
	s.run(s.urlOf(server), 3000)
	s.refusals(t, 75)
}

// refuser has a server refuse something to its user, and a simulated one to everybody. A nil *refuser refuses nothing.
type refuser struct {
	on      testredis.Server
	may     []string // commands that it may refuse
	refuses string   // "" means nothing
	refused map[string]int
	proven  wire.Proven
	script  *wire.Script // by which the node carries out the command
}

// full stands for what is refused by a server that is full.
const full = "full"

func newRefuser(t *testing.T, server testredis.Server, may func(command string) bool) *refuser {
	f := &refuser{on: server, refused: map[string]int{}}
	f.may = slices.DeleteFunc(sim.Commands(), func(command string) bool { return command == "PUBLISH" || !may(command) })
	f.set(t, "ACL", "SETUSER", "locker", "reset", "on", ">secret", "allkeys", "allchannels", "allcommands")
	return f
}

// urlOf is that of a server for the user.
func (f *refuser) urlOf(server testredis.Server) string {
	if f == nil {
		return server.URL()
	}
	return "redis://locker:secret@" + server.Addr()
}

func (f *refuser) set(t *testing.T, command string, args ...any) {
	_, err := f.on.Do(command, args...)
	require.NoError(t, err)
}

// begin begins to refuse something, as a rule.
func (f *refuser) begin(t *testing.T, r *rand.Rand, k *sim.Keyspace) {
	if f == nil || r.IntN(4) == 0 {
		return
	}
	if n := r.IntN(len(f.may) + 2); n < len(f.may) {
		f.refuses = f.may[n]
		f.set(t, "ACL", "SETUSER", "locker", "-"+f.refuses)
		k.Refuse(f.refuses)
		return
	}
	f.refuses = full
	f.set(t, "CONFIG", "SET", "maxmemory", 1)
	k.Fill()
}

// end ends that, and counts what was refused to a command.
func (f *refuser) end(t *testing.T, k *sim.Keyspace, what string, c *wire.Command, reply *wire.Reply) {
	if f == nil {
		return
	}
	if reply.Answer == quorum.Yes {
		f.proven.Granted(c, f.script)
	}
	switch k.Permit(); f.refuses {
	case "":
		return
	case full:
		f.set(t, "CONFIG", "SET", "maxmemory", 0)
	default:
		f.set(t, "ACL", "SETUSER", "locker", "+"+f.refuses)
	}
	if codeOf(reply.Err) != "" {
		f.refused[fmt.Sprint(f.refuses, " to ", what)]++
	}
	f.refuses = ""
}

// carrier is the script by which the node carries out a command.
func (f *refuser) carrier(c *wire.Command) *wire.Script {
	if f == nil {
		return c.Script
	}
	f.script = f.proven.Carrier(c)
	return f.script
}

// refusals checks how many pairs of a command and what it was refused to there were.
func (f *refuser) refusals(t *testing.T, least int) {
	for _, what := range slices.Sorted(maps.Keys(f.refused)) {
		t.Log(what, f.refused[what])
	}
	require.GreaterOrEqual(t, len(f.refused), least, "nearly each command of each script was refused")
}

// codeOf is that of a server's error, if it is about a right or about memory.
func codeOf(err error) string {
	refusal := (*nodeerr.ServerError)(nil)
	if errors.As(err, &refusal) && (refusal.Code == "NOPERM" || refusal.Code == "OOM") {
		return refusal.Code
	}
	return ""
}
