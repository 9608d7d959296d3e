package tenants_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// trouble is something that happens to a whole server. Begin returns what ends it.
type trouble struct {
	name    string
	forgets bool // the server loses keys
	begin   func(c *tenant, i int, d *rand.Rand) (end func())
}

// once is a trouble that is over at once.
func once(command string, args ...any) func(*tenant, int, *rand.Rand) func() {
	return func(c *tenant, i int, _ *rand.Rand) func() {
		_, _ = c.do(i, command, args...)
		return func() {}
	}
}

// setting is a trouble that a wrong setting makes.
func setting(name, value string) func(*tenant, int, *rand.Rand) func() {
	return func(c *tenant, i int, _ *rand.Rand) func() { return c.config(i, name, value) }
}

// rules is a trouble that changed permissions make. With cut the connections of the Lockers are cut too.
func rules(cut bool, change ...any) func(*tenant, int, *rand.Rand) func() {
	return func(c *tenant, i int, _ *rand.Rand) func() {
		_, err := c.do(i, "ACL", slices.Concat([]any{"SETUSER", "locker"}, change)...)
		if err != nil && !c.w.old {
			c.w.failed("ACL SETUSER %v: %v", change, err)
		}
		if cut {
			_, _ = c.do(i, "CLIENT", "KILL", "USER", "locker")
		}
		return func() {
			args := []any{"SETUSER", "locker", "reset"}
			for _, rule := range lockerRules {
				args = append(args, rule)
			}
			c.must(i, "ACL", args...)
		}
	}
}

var troubles = []trouble{
	{"FLUSHALL", true, once("FLUSHALL")},
	{"FLUSHDB ASYNC", true, once("FLUSHDB", "ASYNC")},
	{"SWAPDB", true, func(c *tenant, i int, _ *rand.Rand) func() {
		_, _ = c.do(i, "SWAPDB", 0, 1)
		return func() { c.must(i, "SWAPDB", 0, 1) }
	}},
	{"eviction", true, func(c *tenant, i int, _ *rand.Rand) func() {
		policy := c.config(i, "maxmemory-policy", "allkeys-random")
		memory := c.config(i, "maxmemory", "1")
		return func() { memory(); policy() }
	}},
	{"restart", true, func(c *tenant, i int, _ *rand.Rand) func() {
		c.w.processes[i].Stop()
		c.w.processes[i].Start()
		return func() {}
	}},
	{"crash", true, func(c *tenant, i int, _ *rand.Rand) func() {
		c.w.processes[i].Stop()
		return c.w.processes[i].Start
	}},
	{"freeze", false, func(c *tenant, i int, _ *rand.Rand) func() {
		c.w.processes[i].Freeze()
		return c.w.processes[i].Thaw
	}},
	{"CLIENT PAUSE ALL", false, once("CLIENT", "PAUSE", 500)},
	{"CLIENT PAUSE WRITE", false, once("CLIENT", "PAUSE", 1000, "WRITE")},
	{"DEBUG SLEEP", false, once("DEBUG", "SLEEP", "0.4")},
	{"busy script", false, func(c *tenant, i int, _ *rand.Rand) func() {
		undo := c.config(i, "lua-time-limit", "1")
		_, _ = c.do(i, "EVAL", "local till = os.clock() + 0.3 while os.clock() < till do end", 0)
		return undo
	}},
	{"CLIENT KILL all", false, once("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")},
	{"CLIENT KILL pubsub", false, once("CLIENT", "KILL", "TYPE", "pubsub")},
	{"CLIENT KILL again and again", false, func(c *tenant, i int, d *rand.Rand) func() {
		for range 20 {
			_, _ = c.do(i, "CLIENT", "KILL", "USER", "locker")
			<-time.After(time.Duration(d.IntN(30)) * time.Millisecond)
		}
		return func() {}
	}},
	{"SCRIPT FLUSH", false, once("SCRIPT", "FLUSH")},
	{"SCRIPT KILL", false, once("SCRIPT", "KILL")},
	{"OOM", false, setting("maxmemory", "1")},
	{"timeout", false, setting("timeout", "1")},
	{"notifications", false, setting("notify-keyspace-events", "KEA")},
	{"tracking table of one", false, setting("tracking-table-max-keys", "1")},
	{"small output buffers", false, setting("client-output-buffer-limit", "normal 1024 0 0 pubsub 1024 0 0")},
	{"small texts", false, setting("proto-max-bulk-len", "1048576")},
	{"too few replicas", false, setting("min-replicas-to-write", "1")},
	{"full of clients", false, func(c *tenant, i int, _ *rand.Rand) func() {
		_, _ = c.do(i, "PING")
		undo := c.config(i, "maxclients", "1")
		_, _ = c.do(i, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		return undo
	}},
	{"REPLICAOF nobody", false, func(c *tenant, i int, _ *rand.Rand) func() {
		_, _ = c.do(i, "REPLICAOF", "127.0.0.1", "1")
		return func() { c.must(i, "REPLICAOF", "NO", "ONE") }
	}},
	{"large messages", false, func(c *tenant, i int, d *rand.Rand) func() {
		channels, _ := redis.Strings(c.do(i, "PUBSUB", "CHANNELS", "quorumlock:*"))
		for _, channel := range channels {
			_, _ = c.do(i, "PUBLISH", channel, c.w.payload[:1<<20+d.IntN(len(c.w.payload)-1<<20)])
		}
		return func() {}
	}},
	{"ACL without pub/sub", false, rules(false, "-@pubsub")},
	{"ACL without channels", false, rules(true, "resetchannels")},
	{"ACL without tracking", false, rules(true, "-client|tracking")},
	{"ACL without caching", false, rules(false, "-client|caching")},
	{"ACL without CLIENT", false, rules(true, "-client")},
	{"ACL without INFO", false, rules(true, "-info")},
	{"ACL without scripts", false, rules(false, "-eval", "-evalsha")},
	{"ACL without SET", false, rules(false, "-set")},
	{"ACL without PTTL", false, rules(false, "-pttl")},
	{"ACL without DEL", false, rules(false, "-del")},
	{"ACL without INCRBY", false, rules(false, "-incrby", "-time")},
	{"ACL with other keys", false, rules(false, "resetkeys", "~other:*")},
	{"ACL with reading only", false, rules(false, "resetkeys", "%R~*")},
	{"ACL without commands", false, rules(false, "nocommands")},
	{"ACL off", false, rules(true, "off")},
	{"ACL with another password", false, rules(true, "resetpass", ">other")},
}

// episode brings trouble on some servers, and returns when all of it has ended and the Lockers have recovered. Every
// fourth time it may be a majority.
func (w *world) episode(number int) {
	d := w.dice(uint64(number))
	n := 1 + d.IntN(minority)
	if number%4 == 3 {
		n = minority + 1 + d.IntN(size-minority)
	}
	now := &weather{victims: d.Perm(size)[:n], number: number + 1}
	w.weather.Store(now)
	for range 1 + d.IntN(4) {
		if w.ctx.Err() != nil {
			break
		}
		w.trouble(d, now.victims)
	}
	w.recover(number)
	w.weather.Store(&weather{number: number + 1})
}

// trouble brings one trouble on each victim, lets it last a moment, and ends it.
func (w *world) trouble(d *rand.Rand, victims []int) {
	var chosen []trouble
	var names []string
	var ends []func()
	for _, i := range victims {
		t := troubles[d.IntN(len(troubles))]
		chosen = append(chosen, t)
		names = append(names, fmt.Sprintf("%d: %s", i, t.name))
	}
	forgets := slices.ContainsFunc(chosen, func(t trouble) bool { return t.forgets })
	w.disturbed(&w.servers, "%s", strings.Join(names, ", "))
	if forgets {
		w.oracle.forgets()
	}
	for v, i := range victims {
		ends = append(ends, chosen[v].begin(w.admin, i, d))
	}
	<-time.After(time.Duration(50+d.IntN(1200)) * time.Millisecond)
	for _, end := range ends {
		end()
	}
	if forgets {
		w.oracle.forgotten()
	}
	w.disturbed(&w.servers, "%s: ended", strings.Join(names, ", "))
}

// recover waits until every Locker takes locks on all servers.
func (w *world) recover(number int) {
	for _, m := range w.members {
		deadline := time.Now().Add(bound)
		for try := 0; !w.takesOnAll(m, fmt.Sprintf("probe-%d-%d", number, try)); try++ {
			if w.ctx.Err() != nil {
				return
			}
			if time.Now().After(deadline) {
				_, err := m.locker.Inspect(w.ctx, "probe")
				w.failed("%s does not use all servers again: %v", m.name, err)
				return
			}
		}
	}
}
