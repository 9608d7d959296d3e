package form

import (
	"slices"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Shared is the form of a lock that several holders have at a time. The key holds a mark. The mark keeps out every
// client that sets the key only if it does not exist. The key {key}:sharers has the tokens of the holders. Without the
// mark it means nothing. If the kind has slots, the key {key}:slots has the slot of each token.
type Shared struct {
	Kind
	Pass  bool   // entries with limit 0 do not count: see [Demand]
	Slots uint16 // how many slots the name has
}

// keys returns the keys of a script: the key of the lock, and its companion keys.
func (s Shared) keys(key string, behind ...string) []string {
	keys := make([]string, 1, 4)
	keys[0] = key
	for _, end := range behind {
		keys = append(keys, companion(key, end))
	}
	if s.HasSlots() {
		keys = append(keys, companion(key, behindSlots))
	}
	return keys
}

// Acquire implements [Form]. It takes the lock if the key does not exist or holds the mark, and no other process waits
// that comes first ([Demand]). With slots, one must be free.
func (s Shared) Acquire(c *wire.Command, id ID, a Ask) {
	*c = wire.Command{
		Class: wire.Vote, Script: shareAcquireScript, Key: id.Key, Token: id.Token, Parse: parseShare, Shares: true,
	}
	args := []string{s.Mark(), s.pass(), id.Token, millis(a.TTL)}
	if s.HasSlots() {
		args = append(args, strconv.Itoa(int(s.Slots)), strconv.Itoa(a.Start))
		c.Parse = func(v *wire.Value) wire.Reply { return parseSlot(v, int64(s.Slots)) }
	}
	c.WithKeys(s.keys(id.Key, behindSharers, behindWanted), args...)
}

// pass returns the argument of a script that says whether entries with limit 0 count.
func (s Shared) pass() string {
	if s.Pass {
		return "pass"
	}
	return ""
}

// Extend runs share_extend.lua. It implements [Form].
func (s Shared) Extend(c *wire.Command, id ID, ttl time.Duration) {
	*c = wire.Command{
		Class: wire.Extend, Script: shareExtendScript, Key: id.Key, Token: id.Token, Parse: parseStay, Shares: true,
	}
	c.WithKeys(s.keys(id.Key, behindSharers),
		slices.Concat([]string{s.Mark(), id.Token, millis(ttl)}, s.slot(id.Number))...)
}

// slot returns the last argument of a script if the lock has a slot, and otherwise nothing.
func (s Shared) slot(number uint64) []string {
	if !s.HasSlots() || number == 0 {
		return nil
	}
	return []string{decimal(number - 1)}
}

// Release implements [Form]. The last sharer deletes the key. A lock is released whatever its slot is: an acquire whose
// answer came too late may have got another slot than the others.
func (s Shared) Release(c *wire.Command, id ID, redeliver time.Duration) {
	s.leave(c, ID{Key: id.Key, Token: id.Token})
	c.Class, c.Redeliver = wire.CleanUp, redeliver
}

// TakeBack runs share_release.lua with the slot that was granted. It implements [Slotted].
func (s Shared) TakeBack(c *wire.Command, id ID, granted wire.Slot) {
	s.leave(c, ID{id.Key, id.Token, uint64(granted)})
	c.Class = wire.CleanUp
}

// Remove implements [Form]. It removes one sharer of the key. Without a token it deletes the key if it has no sharers.
func (s Shared) Remove(c *wire.Command, key string, seen Observation) {
	s.leave(c, ID{Key: key, Token: seen.Token})
}

// leave makes the command that runs share_release.lua for a token.
func (s Shared) leave(c *wire.Command, id ID) {
	*c = wire.Command{
		Class: wire.Remove, Script: shareReleaseScript, Key: id.Key, Token: id.Token, Parse: parseLeave, Shares: true,
	}
	c.WithKeys(s.keys(id.Key, behindSharers), slices.Concat([]string{s.Mark(), id.Token}, s.slot(id.Number))...)
}

// Observe runs share_look.lua without a token. It implements [Form].
func (s Shared) Observe(key string) *wire.Command { return s.look(key, s.inTheWay, "") }

// Look runs share_look.lua with the token of the lock. It implements [Form].
func (s Shared) Look(id ID) *wire.Command {
	return s.look(id.Key, func(v *wire.Value) wire.Reply { return s.own(v, id) }, id.Token)
}

// Sharers asks for the sharers of a key. It skips the first skip of them, and reports the next MostSharers at most, in
// the order in which they end. The reply shows the value of the key, and whether a process waits for another kind of
// lock. If the value is the mark, [wire.Reply.Each] has the token, the TTL and the slot of each sharer. Sharers is not
// tracked.
func (s Shared) Sharers(key string, skip int) *wire.Command {
	c := s.look(key, s.sharers, "", strconv.Itoa(MostSharers), strconv.Itoa(skip))
	c.Tracked = false
	return c
}

// MostSharers is how many sharers of a key one reply has, at most.
const MostSharers = 256

// look makes the command that runs share_look.lua. args stand behind the first two arguments.
func (s Shared) look(key string, parse func(*wire.Value) wire.Reply, args ...string) *wire.Command {
	c := &wire.Command{Script: shareLookScript, Key: key, Parse: parse, BySource: true, Tracked: true}
	c.WithKeys(s.keys(key, behindSharers, behindWanted), append([]string{s.Mark(), s.pass()}, args...)...)
	return c
}

// ObserveMaster asks for the value of the key, as for any other lock. It implements [Form].
func (Shared) ObserveMaster(key string) *wire.Command { return text{}.ObserveMaster(key) }

// Shows returns the observation with the slot, and with what keeps others out. It implements [Form].
func (Shared) Shows(r *wire.Reply) Observation {
	s := observation(r, false)
	s.Slot, s.WriterWaits, s.Over = r.Slot, r.WriterWaits, r.Over
	return s
}

// Heal deletes the key, as for any other lock. It implements [Form].
func (Shared) Heal(key, value string) *wire.Command { return text{}.Heal(key, value) }

// parseSlot parses the reply of share_acquire.lua with slots.
func parseSlot(v *wire.Value, limit int64) wire.Reply {
	switch {
	case v.Kind == ':' && v.Num == -4:
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrFull}
	case v.Kind == ':' && v.Num > 0 && v.Num <= 2*limit:
		return wire.Reply{Answer: quorum.Yes, Slot: wire.SlotAt(int(v.Num-1) / 2), Same: v.Num%2 == 1}
	}
	return parseShare(v)
}

// parseShare parses the reply of share_acquire.lua without slots.
func parseShare(v *wire.Value) wire.Reply {
	switch {
	case v.Kind != ':':
	case v.Num == 1:
		return wire.Reply{Answer: quorum.Yes, Same: true}
	case v.Num == 2:
		return wire.Reply{Answer: quorum.Yes}
	case v.Num == 0:
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrWanted}
	case v.Num >= -3 && v.Num <= -1:
		return replies[4+v.Num]
	}
	return wire.Unexpected(v)
}

// parseStay parses the reply of share_extend.lua.
func parseStay(v *wire.Value) wire.Reply {
	if v.Kind == ':' && (v.Num == 3 || v.Num == 4) {
		r := replies[2+v.Num]
		r.Same = true
		return r
	}
	return parseStayed(v)
}

// parseLeave parses the reply of share_release.lua.
func parseLeave(v *wire.Value) wire.Reply {
	if v.Kind == ':' && v.Num == 2 {
		return wire.Reply{Answer: quorum.Yes, Same: true}
	}
	return parseRelease(v)
}

// looked is the reply of share_look.lua. TTLs are in milliseconds.
type looked struct {
	kept    int64        // TTL of the key. -1 means that it never expires, -2 that there is no key.
	waits   bool         // a process waits
	limit   int64        // the lowest limit of the waiting processes
	over    int64        // TTL of the entry with that limit
	count   int64        // how many sharers there are
	first   int64        // TTL of the sharer that ends first. -1 means that there is none.
	own     int64        // TTL of the token. -1 means that it is not among the sharers.
	slot    wire.Slot    // slot of the token. Zero means none.
	sharers []wire.Value // token, TTL and slot of each sharer
}

// writerWaits reports whether a process waits that lets in nobody who wants to share the key.
func (l *looked) writerWaits() bool { return l.waits && l.limit == 0 }

// looks parses the reply of share_look.lua. ok is false if r is complete: nothing is there, the key holds something
// else, or the reply is invalid.
func (s Shared) looks(v *wire.Value) (l looked, r wire.Reply, ok bool) {
	if v.Kind == '_' || v.Kind == '*' && len(v.Items) == 2 && v.Items[0].Kind == '_' {
		return l, parseObserve(v), false
	}
	if !isLooked(v) {
		return l, wire.Unexpected(v), false
	}
	held := &v.Items[0]
	if len(held.Text) > wire.MaxToken {
		return l, foreign(errTooLong, v.Items[1].Num), false
	}
	if held.IsText() && string(held.Text) != s.Mark() {
		return l, wire.Reply{Answer: quorum.Yes, Value: string(held.Text), TTL: wire.TTL(v.Items[1].Num)}, false
	}
	n := func(i int) int64 { return v.Items[i].Num }
	l = looked{kept: n(1), over: n(3), count: n(4), first: n(5), own: n(6), slot: slotOf(n(7)), sharers: v.Items[leading:]}
	l.limit, l.waits = limitOf(&v.Items[2])
	return l, r, true
}

// leading is how many values stand before the values of the sharers.
const leading = 8

// isLooked reports whether a value can be parsed as looked.
func isLooked(v *wire.Value) bool {
	if v.Kind != '*' || len(v.Items) < leading || len(v.Items)%3 != leading%3 {
		return false
	}
	for i := range v.Items {
		item, isNumber := &v.Items[i], i != 0 && i != 2
		if i >= leading {
			isNumber = (i-leading)%3 > 0
		}
		switch {
		case isNumber && (item.Kind != ':' || item.Num < -2):
			return false
		case !isNumber && !item.IsText() && (i >= leading || item.Kind != '_'):
			return false
		}
	}
	return true
}

// slotOf returns the slot with an index that a server reports, or none if there is no such slot.
func slotOf(i int64) wire.Slot {
	if i < 0 || i >= MaxSlots {
		return 0
	}
	return wire.SlotAt(int(i))
}

// inTheWay parses the reply to Observe. Yes means that something keeps another sharer out: a process that waits and
// comes first, slots that are all taken, or another value under the key.
func (s Shared) inTheWay(v *wire.Value) wire.Reply {
	l, r, ok := s.looks(v)
	switch {
	case !ok:
		return r
	case l.writerWaits():
		return wire.Reply{Answer: quorum.Yes, Value: wanted, TTL: wire.TTL(l.over)}
	case s.HasSlots() && l.count >= int64(s.Slots):
		return wire.Reply{
			Answer: quorum.Yes, Value: s.Mark(), TTL: wire.TTL(l.first), Over: l.count > int64(s.Slots),
		}
	case s.HasSlots() && l.waits && l.count >= l.limit:
		return wire.Reply{Answer: quorum.Yes, Value: wanted, TTL: wire.TTL(min(l.over, l.first))}
	}
	return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrAbsent}
}

// own parses the reply to Look: the state of one sharer, as if the key held its token.
func (s Shared) own(v *wire.Value, id ID) wire.Reply {
	l, r, ok := s.looks(v)
	switch {
	case !ok:
		return r
	case s.HasSlots() && l.slot == 0: // without a slot there is no lock
	case l.own >= 0 && (id.Number == 0 || id.Number == uint64(l.slot)):
		return wire.Reply{Answer: quorum.Yes, Value: id.Token, TTL: wire.TTL(l.own), Slot: l.slot}
	}
	return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrAbsent}
}

// sharers parses the reply to Sharers.
func (s Shared) sharers(v *wire.Value) wire.Reply {
	l, r, ok := s.looks(v)
	switch {
	case !ok:
		return r
	case l.kept == -2:
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrAbsent}
	}
	r = wire.Reply{Answer: quorum.Yes, Value: s.Mark(), TTL: wire.TTL(l.kept)}
	if l.writerWaits() {
		r.WriterWaits = true
	}
	for who := range slices.Chunk(l.sharers, 3) {
		if who[1].Num < 0 || len(who[0].Text) > wire.MaxToken {
			return wire.Unexpected(v)
		}
		r.Each = append(r.Each, wire.Reply{
			Answer: quorum.Yes, Value: string(who[0].Text), TTL: wire.TTL(who[1].Num), Slot: slotOf(who[2].Num),
		})
	}
	return r
}
