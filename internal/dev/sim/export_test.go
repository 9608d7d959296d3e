package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Keyspace is what a simulated node knows, for the conformance test. Its clock stands still.
type Keyspace struct{ keyspace }

func NewKeyspace() *Keyspace {
	return &Keyspace{keyspace{keys: map[string]entry{}, counters: map[string]counter{}, sharers: map[string]*sharers{}}}
}

// Does names what a command does.
func Does(c *wire.Command) string {
	what := does(c).String()
	if c.Keys() != nil {
		what += " of several"
	}
	if shares(c) {
		what += " of sharers"
	}
	if fenced(c) {
		what += " with fencing"
	}
	return what
}

// Do carries out a command at an instant: now in whole milliseconds, for TTLs, and wall in microseconds,
// for numbers. The script is that which carries it out: its own, or its Proof.
func (k *Keyspace) Do(c *wire.Command, script *wire.Script, now time.Duration, wall int64) wire.Reply {
	m := message{order: order{cmd: c}, script: script}
	v := k.do(c, m.proves(), now, wall)
	return c.Reply(&v)
}

// Stray leaves a key without a TTL, whatever was there.
func (k *Keyspace) Stray(key, token string) { k.set(key, &entry{token: token, forever: true}) }

// Delete deletes a key.
func (k *Keyspace) Delete(key string) { k.set(key, nil) }

// Count sets a counter.
func (k *Keyspace) Count(key string, number uint64, ttl, now time.Duration) {
	k.counters[key] = counter{number: number, expires: now + ttl}
}

// CounterData leaves somebody's data in the place of a counter.
func (k *Keyspace) CounterData(key string) { k.counters[key] = counter{foreign: true} }

// ReservedData reports whether it is there.
func (k *Keyspace) ReservedData(key string) bool { return k.counters[key].foreign }

// NoTTL is the TTL of a key that has none.
const NoTTL = noTTL

// Counted returns a counter and its TTL; 0 means that it is not there.
func (k *Keyspace) Counted(key string, now time.Duration) (number uint64, ttl time.Duration) {
	f := k.count(key, now)
	if f.number == 0 {
		return 0, 0
	}
	return f.number, f.expires - now
}

// Flush deletes all keys.
func (k *Keyspace) Flush() {
	clear(k.keys)
	clear(k.counters)
	clear(k.sharers)
}

// Left returns what is under key and its TTL.
func (k *Keyspace) Left(key string, now time.Duration) (token string, number uint64, ttl time.Duration) {
	e, ok := k.get(key, now)
	switch {
	case !ok:
		return "", 0, 0
	case e.forever:
		return e.token, e.number, noTTL
	}
	return e.token, e.number, e.expires - now
}

// Persist takes the TTL of a key.
func (k *Keyspace) Persist(key string, now time.Duration) {
	if e, ok := k.get(key, now); ok {
		e.forever = true
		k.set(key, &e)
	}
}

// Wanted is the key of the entries of those that wait for another key.
func Wanted(key string) string { return wanted(key) }

// Entries returns these entries, with the time that each has left. is is false if there are none, or somebody's data is there.
func (k *Keyspace) Entries(key string, now time.Duration) (left map[string]time.Duration, is bool) {
	if e, ok := k.get(wanted(key), now); !ok || e.token != asking {
		return nil, false
	}
	left = map[string]time.Duration{}
	for entry, e := range k.shared(wanted(key), now).in {
		left[entry] = e.expires - now
	}
	return left, true
}

// Enter adds an entry, and has the key of the entries end with it, unless the key has somebody's data.
func (k *Keyspace) Enter(key, member string, ttl, now time.Duration) {
	_, ok := k.get(wanted(key), now)
	z := k.entriesAt(wanted(key), ok, now)
	k.enter(wanted(key), z, member, now+ttl)
	k.endsWith(wanted(key), z, member)
}

// Give leaves a key with a TTL, whatever was there.
func (k *Keyspace) Give(key, token string, ttl, now time.Duration) {
	k.set(key, &entry{token: token, expires: now + ttl})
}

// Shared returns those who are in {key}:sharers, with the time that each has left, which may be over, and the TTL of all.
func (k *Keyspace) Shared(key string, now time.Duration) (left map[string]time.Duration, ttl time.Duration) {
	z := k.shared(key, now)
	left = map[string]time.Duration{}
	for token, e := range z.in {
		left[token] = e.expires - now
	}
	if z.forever {
		return left, noTTL
	}
	return left, z.expires - now
}

// Slots returns the key that has the slots of a key.
func Slots(key string) string { return slots(key) }

// Taken returns the slots of those who have a slot, or have had one, and the TTL of all.
func (k *Keyspace) Taken(key string, now time.Duration) (of map[string]int64, ttl time.Duration) {
	z := k.shared(slots(key), now)
	of = map[string]int64{}
	for token, e := range z.in {
		of[token] = int64(e.number) - 1
	}
	if z.forever {
		return of, noTTL
	}
	return of, z.expires - now
}

// Evict drops those who share a key.
func (k *Keyspace) Evict(key string) { delete(k.sharers, key) }

// EvictSlots drops their slots.
func (k *Keyspace) EvictSlots(key string) { delete(k.sharers, slots(key)) }

// Data leaves somebody's data, with a TTL or [NoTTL].
func (k *Keyspace) Data(key string, ttl, now time.Duration) {
	k.set(key, &entry{token: "data", foreign: true, forever: ttl == NoTTL, expires: now + ttl})
}

// Meant returns lines with what strings of the wire mean in the place of them.
func Meant(p Plan, lines []string) (meant []string) {
	for _, line := range lines {
		meant = append(meant, meanings(p).Replace(line))
	}
	return meant
}

// Commands are all commands that scripts come to.
func Commands() []string { return slices.Clone(commands) }

// Refuse has scripts end where they come to a command.
func (k *Keyspace) Refuse(command string) { k.forbidden = command }

// Fill makes the server full.
func (k *Keyspace) Fill() { k.full = true }

// Permit ends that.
func (k *Keyspace) Permit() { k.rights = rights{} }
