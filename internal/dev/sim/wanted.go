package sim

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	asking  = "|wanted"        // what the model has under the key of the entries while there are any
	maxWant = 10 * time.Second // an entry that ends later is of a clock that was set back
)

// wanted is the key of the entries of those that wait for another key.
func wanted(key string) string { return "{" + key + "}:wanted" }

// wants carries out a command of one that waits. The entries are kept as sharers of the key that they are under.
func (k *keyspace) wants(c *wire.Command, now time.Duration) wire.Value {
	held, ok := k.get(c.Key, now)
	if does(c) == unwant {
		k.call("ZREM")
	} else {
		k.call("TIME", "ZRANGEBYSCORE")
	}
	if ok && held.token != asking {
		return foreign
	}
	z := k.entriesAt(c.Key, ok, now)
	if does(c) == unwant {
		return k.unwant(c.Key, z, c.Token)
	}
	for entry := range z.in {
		if entryOf.FindStringSubmatch(entry) == nil {
			return foreign
		}
	}
	k.call("ZADD")
	k.enter(c.Key, z, c.Token, now+millis(c.Args[1]))
	if why, may := k.pcall("PEXPIRE"); !may {
		k.call("ZREM")
		k.unwant(c.Key, z, c.Token)
		return why
	}
	k.endsWith(c.Key, z, c.Token)
	k.call("ZREMRANGEBYSCORE")
	for entry, e := range z.in {
		if e.expires < now || e.expires > now+maxWant {
			delete(z.in, entry)
		}
	}
	return number(1)
}

// unwant takes an entry out.
func (k *keyspace) unwant(wanted string, z *sharers, member string) wire.Value {
	if _, in := z.in[member]; !in {
		return number(0)
	}
	delete(z.in, member)
	if held := k.keys[wanted]; len(z.in) > 0 {
		k.set(wanted, &held)
	} else {
		k.set(wanted, nil)
	}
	return number(1)
}

// entriesAt returns the entries under a key of entries. Without the key there are none.
func (k *keyspace) entriesAt(wanted string, is bool, now time.Duration) *sharers {
	if !is {
		delete(k.sharers, wanted)
	}
	return k.shared(wanted, now)
}

// enter adds an entry.
func (k *keyspace) enter(wanted string, z *sharers, member string, ends time.Duration) {
	z.in[member] = entry{token: member, expires: ends}
	if _, is := k.keys[wanted]; !is {
		k.set(wanted, &entry{token: asking, forever: true})
	}
}

// endsWith has the key of the entries end with one of them.
func (k *keyspace) endsWith(wanted string, z *sharers, member string) {
	z.expires, z.forever = z.in[member].expires, false
	k.set(wanted, &entry{token: asking, expires: z.expires})
}

// entryOf is what an entry of one that waits looks like: its limit, the process, and the mark of the kind.
var entryOf = regexp.MustCompile(`(?s)^(\d+)\|([^|]+)(.*)$`)

// asks is the entry of one that waits.
type asks struct {
	limit   int64
	entry   string // "" if there is none
	process string
	kind    form.Kind
	ends    time.Duration
}

// lowest returns the entry that lets in the fewest of those who want to share a key. ours is false if somebody's data is there.
func (k *keyspace) lowest(key, mark string, pass bool, now time.Duration) (by asks, ours bool) {
	by.limit = math.MaxInt64
	all, ours := k.asking(key, now)
	for _, a := range all {
		if a.limit > 0 || !pass && a.kind.Mark() != mark {
			if c := cmp.Or(cmp.Compare(a.limit, by.limit), cmp.Compare(a.ends, by.ends), cmp.Compare(a.entry, by.entry)); c < 0 {
				by = a
			}
		}
	}
	return by, ours
}

// asking returns the entries of those that wait.
func (k *keyspace) asking(key string, now time.Duration) (all []asks, ours bool) {
	held, ok := k.get(wanted(key), now)
	switch {
	case !ok:
		return nil, true
	case held.token != asking:
		return nil, false
	}
	for _, e := range k.shared(wanted(key), now).in {
		of := entryOf.FindStringSubmatch(e.token)
		if of == nil {
			return nil, false
		}
		if e.expires >= now && e.expires <= now+maxWant {
			all = append(all, asks{whole(of[1]), e.token, of[2], form.KindOf(of[3]), e.expires})
		}
	}
	return all, true
}

// looksFor reports whether a look is that of one who is in.
func looksFor(c *wire.Command) bool { return c.Args[1+whole(c.Args[0])+2] != "" }

// entries returns a copy of the entries under the key of a command of one that waits; nil for another command.
func (s *server) entries(c *wire.Command) map[string]entry {
	if _, is := form.Wanted(c.Key); !is {
		return nil
	}
	if _, ok := s.peek(c.Key, s.now()); !ok {
		return nil
	}
	return maps.Clone(s.shared(c.Key, s.now()).in)
}

// doneWant checks and notes what the command of one that waits has done.
func (s *server) doneWant(c *wire.Command, before map[string]entry) {
	in := s.shared(c.Key, s.now()).in
	for _, e := range before {
		_, still := in[e.token]
		ended := e.expires < s.now() || e.expires > s.now()+maxWant
		s.check(still || e.token == c.Token || ended, "an entry is removed by its process or by time",
			"node %d: %v of %s has removed %s", s.number, does(c), c.Token, e.token)
	}
	if e, is := in[c.Token]; is && does(c) == want {
		e.born = s.world.now
		in[c.Token] = e
	}
}

// checkAsked checks that nobody is kept out for a process that does not wait.
func (w *world) checkAsked() {
	for name := range w.plan.Names {
		key := key(name)
		for _, s := range w.servers {
			all, _ := s.asking(key, s.now())
			for _, a := range all {
				w.checkAsks(s, key, a)
			}
		}
	}
}

func (w *world) checkAsks(s *server, key string, a asks) {
	i := slices.IndexFunc(w.clients, func(c *client) bool { return c.self == a.process })
	c := w.clients[i]
	n := c.name(key)
	waits := slices.ContainsFunc(n.waiters, func(o *waiter) bool { return o.kind() == a.kind })
	born := s.sharers[wanted(key)].in[a.entry].born
	if !w.plan.Fencing || c.dead || waits || born < w.restored || w.now-n.ended[a.kind] < restTime {
		return
	}
	w.check(false, "nobody is kept out for a process that does not wait", "node %d: %s for another %v", s.number, a.entry, a.ends-s.now())
}
