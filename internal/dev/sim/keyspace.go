package sim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// verb is what a command does.
type verb uint8

const (
	acquire verb = iota
	release
	extend
	force
	heal
	observe
	raise
	want
	unwant
)

var verbs = [...]string{"acquire", "release", "extend", "force", "heal", "observe", "raise", "want", "unwant"}

func (v verb) String() string { return verbs[v] }

// fencedAll is the script that takes several locks with fencing.
var fencedAll = form.Scripts["fenced_all_acquire"]

var verbOf = map[*wire.Script]verb{
	nil: acquire, form.Scripts["fenced_acquire"]: acquire, form.Scripts["all_acquire"]: acquire, fencedAll: acquire,
	form.Scripts["extend"]: extend, form.Scripts["fenced_extend"]: extend,
	form.Scripts["release"]: release, form.Scripts["fenced_release"]: release, form.Scripts["heal"]: heal,
	form.Scripts["observe"]: observe, form.Scripts["raise"]: raise,
	form.Scripts["share_acquire"]: acquire, form.Scripts["share_extend"]: extend, form.Scripts["share_release"]: release,
	form.Scripts["share_look"]: observe,
}

// does returns what a command of package form does.
func does(c *wire.Command) verb {
	v := verbOf[c.Script]
	switch _, is := form.Wanted(c.Key); {
	case is && c.CleansUp():
		return unwant
	case is:
		return want
	}
	if v == release && !c.CleansUp() {
		return force
	}
	return v
}

// fenced reports whether a command is about a counter too.
func fenced(c *wire.Command) bool { return c.Second != "" || c.Script == fencedAll }

// locks are the keys of the locks that a command is about if they may be several; nil if it is about one.
func locks(c *wire.Command) (keys []string) {
	if c.Script != fencedAll {
		return c.Keys()
	}
	for pair := range slices.Chunk(c.Keys(), 2) {
		keys = append(keys, pair[0])
	}
	return keys
}

const (
	noTTL     = wire.NoTTL
	off       = 1_000_000 // microseconds that a counter may be behind an estimate, and that off the node
	maxNumber = 1 << 53
)

// keyspace is what a Redis server knows, and what the commands mean to it. Times are those of the server's
// clock, in whole milliseconds. The conformance test holds it beside a real server.
type keyspace struct {
	keys     map[string]entry
	counters map[string]counter
	sharers  map[string]*sharers
	changed  func(key string) // called after each change; nil means nobody
	rights
}

// clone returns a copy, as a replica has it that gets nothing any more.
func (k *keyspace) clone() (copied keyspace) {
	copied = keyspace{keys: maps.Clone(k.keys), counters: maps.Clone(k.counters), sharers: maps.Clone(k.sharers), changed: k.changed}
	for key, z := range copied.sharers {
		copied.sharers[key] = &sharers{in: maps.Clone(z.in), expires: z.expires, forever: z.forever}
	}
	return copied
}

// entry is a token and when it ends.
type entry struct {
	token   string
	number  uint64 // that stands behind the token; 0 means none
	expires time.Duration
	foreign bool          // it is no token, but somebody's data
	forever bool          // it has no TTL
	born    time.Duration // since when the token is there: true time
	late    time.Duration // how long the command that set expires was on its way
}

// counter is what a node has granted last for a name, and when it forgets that.
type counter struct {
	number  uint64
	expires time.Duration
	foreign bool // it is no number, but somebody's data, which has no TTL
}

// peek returns what is there at an instant.
func (k *keyspace) peek(key string, now time.Duration) (entry, bool) {
	e, ok := k.keys[key]
	if ok && now > e.expires && !e.forever { // as Redis does: the last millisecond belongs to the key
		return entry{}, false
	}
	return e, ok
}

// get is peek by a command: a key whose time is over goes.
func (k *keyspace) get(key string, now time.Duration) (entry, bool) {
	e, ok := k.peek(key, now)
	if _, there := k.keys[key]; there && !ok {
		k.set(key, nil)
	}
	return e, ok
}

// set changes a key; nil deletes it.
func (k *keyspace) set(key string, e *entry) {
	if e == nil {
		delete(k.keys, key)
	} else {
		k.keys[key] = *e
	}
	if k.changed != nil {
		k.changed(key)
	}
}

// count returns the counter of a key; the number 0 means that there is none.
func (k *keyspace) count(key string, now time.Duration) counter {
	if counted := k.counters[key]; now > counted.expires && !counted.foreign {
		delete(k.counters, key)
	}
	return k.counters[key]
}

// do carries out a command, with what proves the rights of the user before it or without that. wall is what TIME returns, in
// microseconds since 1970.
func (k *keyspace) do(c *wire.Command, proves bool, now time.Duration, wall int64) wire.Value {
	k.wrote = false
	return outcome(func() wire.Value {
		if proves {
			_, exists := k.get(c.Key, now)
			k.prove(exists)
		}
		return k.run(c, now, wall)
	})
}

// run runs the script of a command: it comes to the commands that are in there in their order.
func (k *keyspace) run(c *wire.Command, now time.Duration, wall int64) wire.Value {
	switch {
	case c.Keys() != nil:
		return k.grantAll(c, now, wall)
	case shares(c):
		return k.share(c, now)
	case does(c) == want, does(c) == unwant:
		return k.wants(c, now)
	}
	held, ok := k.get(c.Key, now)
	what, args, fenced := does(c), c.Args, c.Second != ""
	switch {
	case what != acquire:
		k.call("GETRANGE")
	case !fenced:
		k.call("SET")
	}
	switch {
	case what == acquire && fenced:
		return k.grant(c.Key, args, ok, now, wall)
	case what == acquire && ok:
		return null
	case what == acquire:
		k.set(c.Key, &entry{token: args[2], expires: now + millis(args[5])})
		return wire.Value{Kind: '+', Text: []byte("OK")}
	case what == extend && fenced:
		return k.extendFenced(c.Key, args, held, ok, now, wall)
	case what == extend:
		return k.extend(c.Key, args[0], 0, millis(args[1]), held, ok, now)
	case what == observe:
		k.call("PTTL")
	}
	switch {
	case what == observe && !ok:
		return null
	case what == observe && held.foreign:
		return held.data(now)
	case what == observe:
		left := int64(-1)
		if !held.forever {
			left = (held.expires - now).Milliseconds()
		}
		value := token.Join(held.token, held.number)
		return wire.Value{Kind: '*', Items: []wire.Value{{Kind: '$', Text: []byte(value)}, number(left)}}
	}
	name, of := split(args[0])
	exactly := ok && held.token == name && held.number == of && (of > 0 || !fenced)
	if fenced && what != raise && !exactly {
		if counted := k.count(c.Key, now); counted.number > 0 && counted.number < of {
			if _, may := k.pcall("INCRBY"); may {
				k.counters[c.Key] = counter{number: of, expires: counted.expires}
			}
		}
	}
	if keeps := what == heal || what == raise; keeps && !held.foreign || !keeps && !exactly {
		k.call("PTTL")
	}
	switch ours := exactly || fenced && ok && held.token == name && held.number > 0; {
	case ok && held.foreign && (held.forever || what == heal || what == raise):
		return foreign
	case !ok:
		return number(0)
	case what == heal && (!exactly || !held.forever), what == raise && !exactly:
		return number(-1)
	case what == raise:
		return k.raise(c.Key, args, held, now)
	case !ours && held.forever:
		return number(-2)
	case !ours:
		return number(-1)
	}
	k.call("DEL")
	k.set(c.Key, nil)
	return number(1)
}

var (
	null      = wire.Value{Kind: '_'}
	foreign   = wire.Value{Kind: '-', Text: []byte("WRONGTYPE Operation against a key holding the wrong kind of value")}
	noScript  = wire.Value{Kind: '-', Text: []byte("NOSCRIPT No matching script. Please use EVAL.")}
	refused   = wire.Value{Kind: '-', Text: []byte("ERR no such number")}
	uncounted = wire.Value{Kind: '-', Text: []byte("WRONGTYPE the fence counter holds no number")}
)

// data is what an observation shows of somebody's data.
func (e *entry) data(now time.Duration) wire.Value {
	if e.forever {
		return foreign
	}
	return wire.Value{Kind: '*', Items: []wire.Value{null, number((e.expires - now).Milliseconds())}}
}

// split splits what a key has into a token and the number behind it; 0 means none.
func split(value string) (name string, number uint64) {
	name, behind, _ := strings.Cut(value, "|")
	switch {
	case name == "": // it is a mark
		return value, 0
	case behind != "":
		number = uint64(whole(behind))
	}
	return name, number
}

func number(n int64) wire.Value { return wire.Value{Kind: ':', Num: n} }

func whole(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err) // package form has written it
	}
	return n
}

func millis(text string) time.Duration { return time.Duration(whole(text)) * time.Millisecond }

// grant carries out an acquire with fencing.
func (k *keyspace) grant(key string, args []string, held bool, now time.Duration, wall int64) wire.Value {
	ttl, estimate, keep, block, floor := millis(args[1]), whole(args[2]), form.DefaultKeep, int64(1), int64(0)
	if len(args) > 3 {
		keep = millis(args[3])
	}
	advance := len(args) > 4 && args[4] != ""
	if advance {
		floor = whole(args[4])
	}
	if len(args) > 5 {
		block = whole(args[5])
	}
	if block > form.MaxBlock {
		return refused
	}
	k.call("GETRANGE")
	counted := k.count(key, now)
	if counted.foreign {
		return uncounted
	}
	granted := int64(counted.number) + block
	forward := advance || granted <= estimate-off
	if forward {
		k.call("TIME")
		begin := wall
		if estimate-wall <= off && wall-estimate <= off {
			begin = estimate
		}
		granted = max(granted, begin+block, floor+block)
	}
	if granted >= maxNumber {
		return refused
	}
	if k.call("SET"); held {
		return null
	}
	k.set(key, &entry{token: args[0], number: uint64(granted), expires: now + ttl})
	command := "INCRBY"
	if forward {
		command = "SET"
	}
	if why, may := k.pcall(command); !may {
		k.call("DEL")
		k.set(key, nil)
		return why
	}
	counted.number = uint64(granted)
	k.counters[key] = counted
	if block > 1 && !forward {
		k.call("PEXPIRE")
	}
	if forward || block > 1 {
		counted.expires = now + ttl + keep
	}
	k.counters[key] = counted
	return number(granted)
}

// grantAll carries out an acquire of several locks: all of them, or none.
func (k *keyspace) grantAll(c *wire.Command, now time.Duration, wall int64) wire.Value {
	keys, args, there, granted := locks(c), c.Args[1+len(c.Keys()):], []wire.Value(nil), []wire.Value(nil)
	for i, key := range keys {
		k.call("PTTL")
		if _, ok := k.get(key, now); ok {
			there = append(there, number(-int64(i+1)))
		}
	}
	if there != nil {
		return wire.Value{Kind: '*', Items: there}
	}
	for i, key := range keys {
		if !fenced(c) {
			k.call("SET")
			k.set(key, &entry{token: args[0], expires: now + millis(args[1])})
			continue
		}
		v := outcome(func() wire.Value { return k.grant(key, append(args[:4:4], args[4+i]), false, now, wall) })
		if v.Kind != ':' {
			for _, key := range keys[:i+1] {
				k.call("DEL")
				if _, set := k.keys[key]; set {
					k.set(key, nil)
				}
			}
			return v
		}
		granted = append(granted, v)
	}
	if granted == nil {
		return number(1)
	}
	return wire.Value{Kind: '*', Items: granted}
}

// raise replaces the number of a key that holds exactly what was granted.
func (k *keyspace) raise(key string, args []string, held entry, now time.Duration) wire.Value {
	counted := k.count(key, now)
	switch {
	case held.forever || held.expires == now:
		return number(0)
	case counted.foreign:
		return uncounted
	case counted.number == 0:
		return number(0)
	}
	if held.number = uint64(whole(args[2])); counted.number < held.number {
		k.call("INCRBY")
		k.counters[key] = counter{number: held.number, expires: counted.expires}
	}
	k.call("SET")
	k.set(key, &held)
	return number(1)
}

// extend carries out an extension, with a number if there is one.
func (k *keyspace) extend(key, name string, of uint64, ttl time.Duration, held entry, ok bool, now time.Duration) wire.Value {
	switch {
	case ok && held.foreign:
		return foreign
	case ok && (held.token != name || (held.number > 0) != (of > 0)):
		return number(-1)
	}
	longer := !ok || held.forever || held.expires-now < ttl
	same := ok && held.number == of
	if ok {
		k.call("PTTL")
	}
	switch {
	case !same:
		k.call("SET")
	case longer:
		k.call("PEXPIRE")
	}
	if longer {
		held = entry{expires: now + ttl}
	}
	held.token, held.number = name, of
	if longer || of > 0 {
		k.set(key, &held)
	}
	k.call("PTTL")
	if !ok {
		return number(2)
	}
	return number(1)
}

// extendFenced raises the counter to the number before.
func (k *keyspace) extendFenced(key string, args []string, held entry, ok bool, now time.Duration, wall int64) wire.Value {
	name, of, ttl, keep := args[0], uint64(whole(args[1])), millis(args[2]), millis(args[3])
	counted := k.count(key, now)
	if !ok {
		k.call("PTTL")
	}
	switch {
	case ok && (held.foreign || held.token != name || held.number == 0):
	case !ok && counted.foreign:
		return number(-4)
	case !counted.foreign && (counted.number > 0 || !ok):
		switch {
		case counted.number == 0:
			k.call("TIME", "SET")
			counted.number = uint64(wall)
		case counted.number < of:
			k.call("SET")
		case counted.expires < now+ttl+keep:
			k.call("PTTL", "PEXPIRE")
		default:
			k.call("PTTL")
		}
		if counted.number < of {
			counted = counter{number: of}
		}
		counted.expires = max(counted.expires, now+ttl+keep)
		k.counters[key] = counted
	}
	return k.extend(key, name, of, ttl, held, ok, now)
}
