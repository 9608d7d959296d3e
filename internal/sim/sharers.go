package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	mark    = "|readers" // what a key holds that some share
	asking  = "|wanted"  // what the key beside it holds while a writer waits
	maxWant = 3 * time.Second
)

// sharers are those who share a key. They mean nothing unless the key holds the mark.
type sharers struct {
	in      map[string]entry // by token
	expires time.Duration
	forever bool // they have no TTL
}

// shares reports whether a command is about those who share a key.
func shares(c *wire.Command) bool { return c.Shares || c.Script == form.Scripts["share_look"] }

// wanted is the key by which a writer says that it waits for another key.
func wanted(key string) string { return "{" + key + "}:wanted" }

// shared returns those who share a key, or have shared it.
func (k *keyspace) shared(key string, now time.Duration) *sharers {
	z := k.sharers[key]
	if z == nil || len(z.in) == 0 || !z.forever && now > z.expires {
		z = &sharers{in: map[string]entry{}, forever: true}
		k.sharers[key] = z
	}
	return z
}

// sharer returns what a key that is shared has of a token.
func (k *keyspace) sharer(key, token string, now time.Duration) (e entry, is bool) {
	if held, ok := k.peek(key, now); !ok || held.token != mark {
		return e, false
	}
	if z := k.sharers[key]; z != nil && (z.forever || now <= z.expires) {
		e, is = z.in[token]
	}
	return e, is && now <= e.expires
}

// lockOf returns what a key has of a token: the key itself, or a share of it.
func (k *keyspace) lockOf(key, token string, now time.Duration) (entry, bool) {
	if e, ok := k.peek(key, now); ok && e.token == token {
		return e, true
	}
	return k.sharer(key, token, now)
}

// pttl is what PTTL returns of a key; -2 means that there is none.
func (k *keyspace) pttl(key string, now time.Duration) int64 {
	e, ok := k.get(key, now)
	switch {
	case !ok:
		return -2
	case e.forever:
		return -1
	}
	return (e.expires - now).Milliseconds()
}

func (z *sharers) pttl(now time.Duration) int64 {
	if z.forever {
		return -1
	}
	return (z.expires - now).Milliseconds()
}

// last is when the last of them ends.
func (z *sharers) last() (at time.Duration, is bool) {
	for _, e := range z.in {
		at, is = max(at, e.expires), true
	}
	return at, is
}

// purge takes out those whose time is over, or all if the key was not there.
func (z *sharers) purge(marked bool, now time.Duration) {
	for token, e := range z.in {
		if !marked || e.expires < now {
			delete(z.in, token)
		}
	}
	if len(z.in) == 0 { // a zset that is empty is not there
		z.forever = true
	}
}

// share carries out a command about those who share a key.
func (k *keyspace) share(c *wire.Command, now time.Duration) wire.Value {
	args := c.Args[1+whole(c.Args[0]):]
	if does(c) == observe {
		return k.lookAt(c.Key, args, now)
	}
	held, ok := k.get(c.Key, now)
	marked := ok && held.token == args[0]
	switch what := does(c); {
	case held.foreign:
		return foreign
	case what == acquire && ok && !marked, what == extend && ok && !marked:
		return number(-1)
	case what == acquire:
		return k.enter(c.Key, args[1], millis(args[2]), marked, now)
	case what == extend:
		return k.stay(c.Key, args[1], millis(args[2]), marked, now)
	case !ok:
		return number(0)
	case !marked && held.forever:
		return number(-2)
	case !marked:
		return number(-1)
	}
	return k.leave(c.Key, args[1], now)
}

// enter carries out an acquire.
func (k *keyspace) enter(key, token string, ttl time.Duration, marked bool, now time.Duration) wire.Value {
	if asked := k.pttl(wanted(key), now); asked >= 0 && asked <= maxWant.Milliseconds() {
		return number(0)
	}
	z := k.shared(key, now)
	z.purge(marked, now)
	if _, in := z.in[token]; in {
		return number(-1)
	}
	z.in[token] = entry{token: token, expires: now + ttl}
	if k.keep(key, z, ttl, marked, now) {
		return number(2)
	}
	return number(1)
}

// stay carries out an extension.
func (k *keyspace) stay(key, token string, ttl time.Duration, marked bool, now time.Duration) wire.Value {
	z := k.shared(key, now)
	z.purge(marked, now)
	e, here := z.in[token]
	if !here || e.expires < now+ttl {
		z.in[token] = entry{token: token, expires: now + ttl}
	}
	code := int64(2)
	if here {
		code = 1
	}
	if !k.keep(key, z, ttl, marked, now) {
		code += 2
	}
	return number(code)
}

// keep has the mark and the sharers stay for as long as the last of them needs, and a quarter more each time that the TTL of one of them is
// too short. It reports whether it has changed the key.
func (k *keyspace) keep(key string, z *sharers, ttl time.Duration, marked bool, now time.Duration) (changed bool) {
	if !marked {
		k.set(key, &entry{token: mark, forever: true})
	}
	short := func(left int64) bool { return left <= ttl.Milliseconds()+1 }
	if short(k.pttl(key, now)) || short(z.pttl(now)) {
		last, _ := z.last()
		k.until(key, z, now+longer(last-now))
		return true
	}
	return !marked
}

// longer is for how long a mark is kept that is needed for so long.
func longer(need time.Duration) time.Duration {
	ms := need.Milliseconds()
	return time.Duration(ms+ms/4+2) * time.Millisecond
}

// until sets when the mark and the sharers end.
func (k *keyspace) until(key string, z *sharers, ends time.Duration) {
	k.set(key, &entry{token: mark, expires: ends})
	z.expires, z.forever = ends, len(z.in) == 0
}

// leave carries out a release.
func (k *keyspace) leave(key, token string, now time.Duration) wire.Value {
	z := k.shared(key, now)
	if token == "" {
		if last, is := z.last(); is && last >= now {
			return number(0)
		}
		k.set(key, nil)
		return number(1)
	}
	e, in := z.in[token]
	if !in {
		return number(0)
	}
	delete(z.in, token)
	last, is := z.last()
	need, kept := last-now, k.pttl(key, now)
	cut := kept < 0 || kept > 2*need.Milliseconds()+10
	code := int64(2)
	switch {
	case !is || need < 0:
		k.set(key, nil)
		code = 1
	case cut:
		k.until(key, z, now+longer(need))
		code = 1
	}
	if e.expires < now {
		code = 0
	}
	return number(code)
}

// lookAt carries out an observation.
func (k *keyspace) lookAt(key string, args []string, now time.Duration) wire.Value {
	kept := k.pttl(wanted(key), now)
	held, ok := k.get(key, now)
	in, own := []entry(nil), int64(-1)
	switch {
	case held.foreign:
		return foreign
	case ok && held.token == args[0]:
		for _, e := range k.shared(key, now).in {
			if e.expires >= now {
				in = append(in, e)
			}
			if len(args) > 1 && e.token == args[1] && e.expires >= now {
				own = (e.expires - now).Milliseconds()
			}
		}
	case !ok && kept < 0:
		return null
	}
	slices.SortFunc(in, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.token, b.token))
	})
	first := int64(-1)
	if len(in) > 0 {
		first = (in[0].expires - now).Milliseconds()
	}
	text := null
	if ok {
		text = wire.Value{Kind: '$', Text: []byte(token.Join(held.token, held.number))}
	}
	items := []wire.Value{text, number(k.pttl(key, now)), number(kept), number(int64(len(in))), number(first), number(own), number(-1)}
	if len(args) > 3 {
		from := min(int(whole(args[3])), len(in))
		for _, e := range in[from:min(from+int(whole(args[2])), len(in))] {
			items = append(items, wire.Value{Kind: '$', Text: []byte(e.token)}, number((e.expires - now).Milliseconds()), number(-1))
		}
	}
	return wire.Value{Kind: '*', Items: items}
}
