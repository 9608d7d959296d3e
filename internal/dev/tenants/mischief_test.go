package tenants_test

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// mischiefs are what tenants do to disturbed names and on channels, on any of the servers.
var mischiefs = []struct {
	name string
	do   func(c *tenant, i int, key string, d *rand.Rand)
}{
	{"DEL", func(c *tenant, i int, key string, _ *rand.Rand) { _, _ = c.do(i, "DEL", key) }},
	{"foreign key", func(c *tenant, i int, key string, d *rand.Rand) {
		kinds[d.IntN(len(kinds))].plant(c, i, key, expiries[d.IntN(len(expiries))], d)
	}},
	{"RENAME away", func(c *tenant, i int, key string, _ *rand.Rand) { _, _ = c.do(i, "RENAME", key, "elsewhere") }},
	{"RENAME back", func(c *tenant, i int, key string, _ *rand.Rand) { _, _ = c.do(i, "RENAME", "elsewhere", key) }},
	{"PERSIST", func(c *tenant, i int, key string, _ *rand.Rand) { _, _ = c.do(i, "PERSIST", key) }},
	{"EXPIRE for ever", func(c *tenant, i int, key string, _ *rand.Rand) { _, _ = c.do(i, "EXPIRE", key, int64(9999999999)) }},
	{"PEXPIRE 1", func(c *tenant, i int, key string, _ *rand.Rand) { _, _ = c.do(i, "PEXPIRE", key, 1) }},
	{"APPEND", func(c *tenant, i int, key string, d *rand.Rand) {
		tails := []string{"x", "|", "|5", "|-1", "|9007199254740993", "\n", ":metadata", "\x00"}
		_, _ = c.do(i, "APPEND", key, tails[d.IntN(len(tails))])
	}},
	{"INCRBY", func(c *tenant, i int, key string, _ *rand.Rand) { _, _ = c.do(i, "INCRBY", key, int64(1<<52)) }},
	{"SETRANGE", func(c *tenant, i int, key string, d *rand.Rand) { _, _ = c.do(i, "SETRANGE", key, d.IntN(3000), "x") }},
	{"PUBLISH", func(c *tenant, i int, _ string, d *rand.Rand) {
		for range 1 + d.IntN(5) {
			channels, _ := redis.Strings(c.do(i, "PUBSUB", "CHANNELS"))
			channels = append(channels, "quorumlock:", "quorumlock:somebody", "__redis__:invalidate")
			_, _ = c.do(i, "PUBLISH", channels[d.IntN(len(channels))], c.message(d, channels))
		}
	}},
}

// mischief does one thing to a disturbed name, on some servers, or on a channel.
func (w *world) mischief(d *rand.Rand, c *tenant) {
	keys := disturbedKeys()
	m, key, servers := mischiefs[d.IntN(len(mischiefs))], keys[d.IntN(len(keys))], d.Perm(size)[:1+d.IntN(size)]
	w.disturbed(&w.names, "%s %s on %v", m.name, key, servers)
	for _, i := range servers {
		if w.weather.Load().spared(i) { // one that hangs would hold this up
			m.do(c, i, key, d)
		}
	}
	<-time.After(time.Duration(d.IntN(50)) * time.Millisecond)
}

// message makes what Lockers may take for a message of a peer.
func (c *tenant) message(d *rand.Rand, channels []string) string {
	names := []string{prefix + hotName(0), prefix + "together-0", prefix + "together-1", prefix + "alone-plain-0-1", "x"}
	lines := []string{[]string{"waits", "yours", "", "x"}[d.IntN(4)], names[d.IntN(len(names))]}
	for range d.IntN(2 << d.IntN(12)) {
		owner := strings.TrimPrefix(channels[d.IntN(len(channels))], "quorumlock:")
		if d.IntN(2) == 0 {
			owner = strings.Repeat(string(rune('A'+d.IntN(26))), 8)
		}
		lines = append(lines, owner)
	}
	switch d.IntN(4) {
	case 0:
		return c.w.payload[:d.IntN(1<<d.IntN(20))]
	case 1:
		return lines[0]
	}
	return strings.Join(lines, "\n")
}
