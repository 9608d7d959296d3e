package sim

import "time"

// Keyspace is what a simulated node knows, for the conformance test. Its clock stands still.
type Keyspace struct{ keyspace }

// Command is what is put to it.
type Command = command

// Verbs are the commands.
const (
	AcquireCommand = acquire
	ReleaseCommand = release
	ExtendCommand  = extend
	ForceCommand   = force
	HealCommand    = heal
	RaiseCommand   = raise
)

func NewKeyspace() *Keyspace {
	return &Keyspace{keyspace{keys: map[string]entry{}, counters: map[string]counter{}}}
}

// NewCommand makes a command without fencing.
func NewCommand(verb verb, key, token string, ttl time.Duration) Command {
	return command{verb: verb, key: key, token: token, ttl: ttl}
}

// NewFenced makes one with fencing; which of the numbers apply depends on the verb.
func NewFenced(verb verb, key, token string, ttl time.Duration, number, raised, estimate uint64, forward bool, floor, block uint64, keep time.Duration) Command {
	return command{verb: verb, key: key, token: token, ttl: ttl, fenced: true, fence: fencing{number, raised, estimate, forward, floor, block, keep}}
}

// Numbers returns how many an acquire asks for.
func (c command) Numbers() int64 { return int64(max(1, c.fence.block)) }

func (c command) String() string {
	if c.fenced {
		return c.verb.String() + " with fencing"
	}
	return c.verb.String()
}

// Do carries out a command at an instant: now in whole milliseconds, for TTLs, and wall in microseconds,
// for numbers.
func (k *Keyspace) Do(c Command, now time.Duration, wall int64) (code int, number uint64) {
	r := k.do(c, now, wall)
	return r.code, r.number
}

// Observe carries out an observation.
func (k *Keyspace) Observe(key string, now time.Duration) (token string, number uint64, ttl time.Duration, ok bool) {
	r := k.do(command{verb: observe, key: key}, now, 0)
	return r.token, r.number, r.ttl, r.code == 1
}

// Stray leaves a key without a TTL, whatever was there.
func (k *Keyspace) Stray(key, token string) { k.set(key, &entry{token: token, forever: true}) }

// Count sets a counter.
func (k *Keyspace) Count(key string, number uint64, ttl, now time.Duration) {
	k.counters[key] = counter{number: number, expires: now + ttl}
}

// CounterData leaves somebody's data in the place of a counter.
func (k *Keyspace) CounterData(key string) { k.counters[key] = counter{foreign: true} }

// IsCounterData reports whether it is there.
func (k *Keyspace) IsCounterData(key string) bool { return k.counters[key].foreign }

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
