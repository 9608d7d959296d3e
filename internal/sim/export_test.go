package sim

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Keyspace is what a simulated node knows, for the conformance test. Its clock stands still.
type Keyspace struct{ keyspace }

func NewKeyspace() *Keyspace {
	return &Keyspace{keyspace{keys: map[string]entry{}, counters: map[string]counter{}}}
}

// Does names what a command does.
func Does(c *wire.Command) string {
	what := does(c).String()
	if c.Keys() != nil {
		what += " of several"
	}
	if fenced(c) {
		what += " with fencing"
	}
	return what
}

// Do carries out a command at an instant: now in whole milliseconds, for TTLs, and wall in microseconds,
// for numbers.
func (k *Keyspace) Do(c *wire.Command, now time.Duration, wall int64) wire.Reply {
	v := k.do(c, now, wall)
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
