package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// isMark reports whether what a key holds says that some share it: readers, or those with a slot.
func isMark(token string) bool { return form.KindOf(token).Several() }

// sharers are those who share a key, or the slots of those with a slot. They mean nothing unless the key holds the mark.
type sharers struct {
	in      map[string]entry // by token; that of a slot has 1 + the slot for its number, and no time
	expires time.Duration
	forever bool // they have no TTL
}

// shares reports whether a command is about those who share a key.
func shares(c *wire.Command) bool { return c.Shares || c.Script == form.Scripts["share_look"] }

// slots returns the key that has the slots of a key.
func slots(key string) string { return "{" + key + "}:slots" }

// shared returns those who share a key, or have shared it.
func (k *keyspace) shared(key string, now time.Duration) *sharers {
	z := k.sharers[key]
	if z == nil || len(z.in) == 0 || !z.forever && now > z.expires {
		z = &sharers{in: map[string]entry{}, forever: true}
		k.sharers[key] = z
	}
	return z
}

// sharer returns what a key that is shared has of a token: with 1 + its slot, if it has one.
func (k *keyspace) sharer(key, token string, now time.Duration) (e entry, is bool) {
	held, ok := k.peek(key, now)
	if !ok || !isMark(held.token) {
		return e, false
	}
	if z := k.sharers[key]; z != nil && (z.forever || now <= z.expires) {
		e, is = z.in[token]
	}
	if form.KindOf(held.token).HasSlots() {
		e.number = k.slot(key, token, now)
	}
	return e, is && now <= e.expires
}

// slot returns 1 + the slot of a token; 0 if it has none.
func (k *keyspace) slot(key, token string, now time.Duration) uint64 {
	if z := k.sharers[slots(key)]; z != nil && (z.forever || now <= z.expires) {
		return z.in[token].number
	}
	return 0
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

// last is when the last of them ends.
func (z *sharers) last() (at time.Duration, is bool) {
	for _, e := range z.in {
		at, is = max(at, e.expires), true
	}
	return at, is
}

// gone returns those whose time is over, or all if the key was not there.
func (z *sharers) gone(marked bool, now time.Duration) (gone []string) {
	for token, e := range z.in {
		if !marked || e.expires < now {
			gone = append(gone, token)
		}
	}
	return gone
}

// clear takes out all.
func (z *sharers) clear() {
	clear(z.in)
	z.leave()
}

// living counts those whose time is not over.
func (z *sharers) living(now time.Duration) (n int64) {
	for _, e := range z.in {
		if e.expires >= now {
			n++
		}
	}
	return n
}

// leave takes some out.
func (z *sharers) leave(tokens ...string) {
	for _, token := range tokens {
		delete(z.in, token)
	}
	if len(z.in) == 0 { // a zset that is empty is not there
		z.forever = true
	}
}

// taken counts the slots that are taken, from one to another.
func (z *sharers) taken(from, last int64) (n int64) {
	for _, e := range z.in {
		if slot := int64(e.number) - 1; from <= slot && slot <= last { //nolint:gosec // it is a slot
			n++
		}
	}
	return n
}

// visit is a command about a key that some share.
type visit struct {
	*keyspace
	key, mark string
	marked    bool // the key holds the mark
	now       time.Duration
	who       *sharers
	slots     *sharers // nil: they have none
}

// share carries out a command about those who share a key.
func (k *keyspace) share(c *wire.Command, now time.Duration) wire.Value {
	args := c.Args[1+whole(c.Args[0]):]
	if does(c) == observe {
		return k.lookAt(c.Key, args, now)
	}
	held, ok := k.get(c.Key, now)
	marked := ok && held.token == args[0]
	what := does(c)
	if k.call("GETRANGE"); !marked {
		k.call("PTTL")
	}
	switch {
	case marked:
	case !ok && what != acquire && what != extend:
		return number(0)
	case ok && !held.forever:
		return number(-1)
	case ok && held.foreign:
		return foreign
	case ok:
		return number(-2)
	}
	v := &visit{keyspace: k, key: c.Key, mark: args[0], marked: marked, now: now, who: k.shared(c.Key, now)}
	if form.KindOf(v.mark).HasSlots() {
		v.slots = k.shared(slots(c.Key), now)
	}
	k.call("TIME")
	switch what {
	case acquire:
		return v.enter(args[1] != "", args[2], millis(args[3]), args[4:])
	case extend:
		return v.stay(args[1], millis(args[2]), args[3:])
	}
	return v.leave(args[1], args[2:])
}

// check comes to the commands that read who is in, and who is the last.
func (v *visit) check() {
	if v.call("ZREVRANGE"); v.slots != nil {
		v.call("ZCARD", "ZCOUNT")
	}
}

// purge takes out those whose time is over, with their slots, or all if the key was not there.
func (v *visit) purge() {
	gone := v.who.gone(v.marked, v.now)
	if v.slots != nil {
		switch v.call("ZRANGEBYSCORE"); {
		case !v.marked:
			v.call("ZREMRANGEBYSCORE")
			v.slots.clear()
		case len(gone) > 0:
			v.call("ZREM")
			v.slots.leave(gone...)
		}
	}
	v.call("ZREMRANGEBYSCORE")
	v.who.leave(gone...)
}

// enter carries out an acquire.
func (v *visit) enter(pass bool, token string, ttl time.Duration, of []string) wire.Value {
	v.call("ZRANGEBYSCORE")
	first, ours := v.lowest(v.key, v.mark, pass, v.now)
	switch {
	case !ours:
		return foreign
	case first.limit == 0:
		return number(0)
	}
	v.check()
	v.call("ZSCORE")
	if _, in := v.who.in[token]; in {
		return number(-1)
	}
	slot, limit, start := int64(0), int64(0), int64(0)
	if v.slots != nil {
		limit, start = whole(of[0]), whole(of[1])
		switch inside := v.who.living(v.now); {
		case v.marked && inside >= limit:
			return number(-4)
		case v.marked && inside >= first.limit:
			return number(0)
		}
	}
	v.call("ZADD", "ZREM") // which change nothing, and neither do those of an empty set
	if v.purge(); len(v.who.in) == 0 {
		v.call("PTTL", "PEXPIREAT", "DEL")
	}
	if v.slots != nil {
		if n := len(v.who.in); n != len(v.slots.in) || int64(n) >= limit {
			return number(-4)
		}
		slot = v.slots.free(limit, start)
	}
	v.begin(ttl)
	v.who.in[token] = entry{token: token, expires: v.now + ttl}
	if v.slots != nil {
		v.slots.in[token] = entry{token: token, number: uint64(1 + slot)}
	}
	if v.keep(ttl) {
		return number(2*slot + 2)
	}
	return number(2*slot + 1)
}

// free returns the first slot that is free, from start on, round the end.
func (z *sharers) free(limit, start int64) int64 {
	for i := range limit {
		if slot := (start + i) % limit; z.taken(slot, slot) == 0 {
			return slot
		}
	}
	panic("fewer have a slot than there are")
}

// stay carries out an extension.
func (v *visit) stay(token string, ttl time.Duration, of []string) wire.Value {
	v.check()
	v.purge()
	v.call("ZSCORE")
	e, here := v.who.in[token]
	longer, slot, at := !here || e.expires < v.now+ttl, int64(0), true
	if v.slots != nil {
		if len(of) == 0 {
			return refused
		}
		slot = whole(of[0])
		if at = v.slots.in[token].number == uint64(1+slot); !at && v.slots.taken(slot, slot) > 0 {
			return number(-1)
		}
	}
	if len(v.who.in) == 0 {
		v.call("PTTL", "PEXPIREAT")
	}
	if v.begin(ttl); longer || !at {
		v.call("ZADD")
	}
	if !at {
		v.slots.in[token] = entry{token: token, number: uint64(1 + slot)}
	}
	if longer {
		v.who.in[token] = entry{token: token, expires: v.now + ttl}
	}
	code := int64(2)
	if here && at {
		code = 1
	}
	if !v.keep(ttl) {
		code += 2
	}
	return number(code)
}

// begin makes the mark, if the key is not there.
func (v *visit) begin(ttl time.Duration) {
	if !v.marked {
		v.call("SET")
		v.set(v.key, &entry{token: v.mark, expires: v.now + ttl})
	}
}

// keep has the sharers stay for as long as the last of them needs, and a quarter more; and the mark, if the TTL of the one who has come is not
// shorter than what it has left. It reports whether it has changed the key.
func (v *visit) keep(ttl time.Duration) (changed bool) {
	v.call("PTTL", "PEXPIREAT")
	last, _ := v.who.last()
	left := v.pttl(v.key, v.now)
	ends := v.now + max(longer(last-v.now), time.Duration(left)*time.Millisecond)
	if left <= ttl.Milliseconds()+1 {
		v.until(ends)
		return true
	}
	v.beside(ends)
	return false
}

// longer is for how long a mark is kept that is needed for so long.
func longer(need time.Duration) time.Duration {
	ms := need.Milliseconds()
	return time.Duration(ms+ms/4+2) * time.Millisecond
}

// until sets when the mark and the sharers end.
func (v *visit) until(ends time.Duration) {
	v.call("PEXPIREAT")
	if ends <= v.now { // PEXPIREAT deletes a key then
		v.set(v.key, nil)
		v.who.clear()
		v.slots.clear()
		return
	}
	v.set(v.key, &entry{token: v.mark, expires: ends})
	v.beside(ends)
}

// beside sets when what stands beside the mark ends.
func (v *visit) beside(ends time.Duration) {
	v.who.expires, v.who.forever = ends, len(v.who.in) == 0
	if v.slots != nil {
		v.slots.expires, v.slots.forever = ends, len(v.slots.in) == 0
	}
}

// leave carries out a release.
func (v *visit) leave(token string, at []string) wire.Value {
	v.check()
	v.call("ZSCORE", "PTTL")
	z := v.who
	if last, is := z.last(); token == "" && (!is || last < v.now) {
		v.call("DEL")
		v.set(v.key, nil)
		return number(1)
	}
	e, in := z.in[token]
	slotless := false
	if len(at) > 0 {
		slot, has := v.slots.in[token]
		if has && slot.number != uint64(1+whole(at[0])) {
			return number(0)
		}
		slotless = !has
	}
	if in || v.slots != nil {
		v.call("ZREM")
	}
	z.leave(token)
	if v.slots != nil {
		v.slots.leave(token)
	}
	if !in {
		return number(0)
	}
	last, is := z.last()
	need, kept := last-v.now, v.pttl(v.key, v.now)
	cut := kept < 0 || kept > 2*need.Milliseconds()+10
	code := int64(1)
	switch {
	case !is || need < 0:
		v.call("DEL")
		v.set(v.key, nil)
	case cut:
		v.until(v.now + longer(need))
	case v.slots != nil: // those who wait are woken
		v.until(v.now + max(time.Duration(kept)*time.Millisecond, need+2*time.Millisecond))
	default:
		code = 2
	}
	if e.expires < v.now || slotless {
		code = 0
	}
	return number(code)
}

// lookAt carries out an observation.
func (k *keyspace) lookAt(key string, args []string, now time.Duration) wire.Value {
	by, left, all := asks{}, int64(0), len(args) > 4
	k.call("TIME")
	if args[2] == "" {
		why, may := k.pcall("ZRANGEBYSCORE")
		ours := may
		if may {
			by, ours = k.lowest(key, args[0], args[1] != "", now)
			why = foreign
		}
		if !ours && !all {
			return why
		}
		if by.entry != "" {
			left = (by.ends - now).Milliseconds()
		}
	}
	k.call("GETRANGE", "PTTL")
	held, ok := k.get(key, now)
	in, own, slot := []entry(nil), int64(-1), int64(-1)
	slotOf := func(token string) int64 {
		if !form.KindOf(args[0]).HasSlots() {
			return -1
		}
		return int64(k.slot(key, token, now)) - 1 //nolint:gosec // it is a slot
	}
	switch {
	case held.foreign:
		return held.data(now)
	case ok && held.token == args[0]:
		k.call("ZREVRANGE")
		if form.KindOf(args[0]).HasSlots() {
			k.call("ZCARD")
		}
		k.call("ZCOUNT", "ZRANGEBYSCORE", "ZSCORE")
		for _, e := range k.shared(key, now).in {
			if e.expires >= now {
				in = append(in, e)
			}
			if e.token == args[2] && e.expires >= now {
				own, slot = (e.expires - now).Milliseconds(), slotOf(e.token)
			}
		}
	case !ok && by.entry == "":
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
	entry := null
	if by.entry != "" {
		entry = wire.Value{Kind: '$', Text: []byte(by.entry)}
	}
	items := []wire.Value{text, number(k.pttl(key, now)), entry, number(left), number(int64(len(in))), number(first), number(own), number(slot)}
	if all {
		from := min(int(whole(args[4])), len(in))
		for _, e := range in[from:min(from+int(whole(args[3])), len(in))] {
			items = append(items, wire.Value{Kind: '$', Text: []byte(e.token)}, number((e.expires - now).Milliseconds()), number(slotOf(e.token)))
		}
	}
	return wire.Value{Kind: '*', Items: items}
}
