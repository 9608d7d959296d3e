package survey

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// Sharers returns the sharers of a kind who hold a lock, and behind them the sharers on fewer nodes, with the longest TTL on any. A
// sharer that has several slots is there once for each.
func Sharers(s *redlock.LockState, kind redlock.Kind) (all []redlock.Holder) {
	type sharer struct {
		token redlock.Token
		slot  int
	}
	place := map[sharer]int{}
	if s.Kind == kind {
		all = slices.Clone(s.Holders)
	}
	holders := len(all)
	for i, r := range all {
		place[sharer{r.Token, r.Slot}] = i
	}
	for _, n := range s.Nodes {
		if n.Kind != kind {
			continue
		}
		for _, r := range n.Holders {
			who := sharer{r.Token, r.Slot}
			i, known := place[who]
			switch {
			case !known:
				place[who] = len(all)
				all = append(all, r)
			case i >= holders:
				all[i].Nodes++
				all[i].TTL = max(all[i].TTL, r.TTL)
			}
		}
	}
	return all
}

const (
	// maxShared is how many keys of sharers are read with one message.
	maxShared = 16
	// maxSharers bounds all sharers that are kept, in bytes, sharerSize for each beside its token.
	maxSharers, sharerSize = 64 << 20, 64
	// halfSlots is half of the slots that a key may have. No reply has more, and so it stays within wire.MaxReply.
	halfSlots = form.MaxSlots / 2
)

// askSharers adds the questions about the next keys that have the mark of sharers to a message.
func (l *lister) askSharers(m *message) {
	if l.blind {
		l.shared = nil
	}
	shared := l.shared[:min(len(l.shared), maxShared)]
	l.shared = l.shared[len(shared):]
	if len(shared) == 0 {
		return
	}
	var now int64
	m.add(func(replies []any) error {
		now, l.blind = timeOf(replies[0])
		return nil
	}, []string{"TIME"})
	for _, s := range shared {
		key := l.server.Tag + form.SharersKey(s.key)
		commands := append(l.readAll([]string{s.key}), []string{"ZRANGE", key, "0", strconv.Itoa(form.MostSharers), "REV", "WITHSCORES"})
		if form.KindNamed(string(s.kind)).HasSlots() {
			key = l.server.Tag + form.SlotsKey(s.key)
			commands = append(commands,
				[]string{"ZRANGE", key, "0", strconv.Itoa(halfSlots - 1), "WITHSCORES"},
				[]string{"ZRANGE", key, strconv.Itoa(halfSlots), strconv.Itoa(form.MaxSlots - 1), "WITHSCORES"})
		}
		m.add(func(replies []any) error { return l.takeSharers(s, now, replies) }, commands...)
	}
}

// sharedKey is a key that has the mark of a kind.
type sharedKey struct {
	key  string
	kind redlock.Kind
}

// takeSharers adds the replies about the sharers of a key to the table, with what the key holds now.
func (l *lister) takeSharers(s sharedKey, now int64, replies []any) error {
	v, err := l.view(replies)
	if err != nil {
		return err
	}
	for _, reply := range replies[2:] {
		if refusal, refused := reply.(*nodeerr.ServerError); refused && refusal.Code != "WRONGTYPE" {
			l.blind = true
		}
	}
	if v.Kind == s.kind && !l.blind {
		v.Sharers, v.More, v.Shown = sharersIn(replies[2:], now)
	}
	l.keep(s.key, v)
	for _, h := range v.Sharers {
		l.find(string(h.Token))
	}
	return nil
}

// sharersIn returns the sharers in the replies about them at a time of the server, the one that ends first in front. ok is false if the
// replies are not about sharers. Behind the first reply are those about slots.
func sharersIn(replies []any, now int64) (all []redlock.Holder, more, ok bool) {
	ends, ok := scoresIn(replies[0])
	slots := map[string]int{}
	for _, reply := range replies[1:] {
		of, isSlots := scoresIn(reply)
		for _, s := range of {
			slots[s.member] = int(min(s.score, form.MaxSlots))
		}
		ok = ok && isSlots
	}
	more = len(ends) > form.MostSharers
	seen := map[string]bool{}
	for _, s := range ends[:min(len(ends), form.MostSharers)] {
		if s.score < now {
			more = false // the sharers behind it have ended too
			continue
		}
		h := redlock.Holder{Token: redlock.Token(s.member), TTL: wire.TTL(s.score - now), Nodes: 1}
		if len(replies) > 1 {
			h.Slot = -1
			if slot, has := slots[s.member]; has && slot < form.MaxSlots {
				h.Slot = slot
			}
		}
		ok = ok && !seen[s.member] && len(s.member) <= wire.MaxToken
		seen[s.member] = true
		all = append(all, h)
	}
	if !ok {
		return nil, false, false
	}
	slices.SortStableFunc(all, func(a, b redlock.Holder) int { return cmp.Compare(a.TTL, b.TTL) })
	return all, more, true
}

// scored is a member of a sorted set.
type scored struct {
	member string
	score  int64
}

// scoresIn returns the members in a reply to ZRANGE WITHSCORES. ok is false if it is another reply, or a score is no time and no slot.
func scoresIn(reply any) (all []scored, ok bool) {
	pairs, isList := reply.([]any)
	if !isList || len(pairs)%2 != 0 {
		return nil, false
	}
	for pair := range slices.Chunk(pairs, 2) {
		member, isText := pair[0].(string)
		text, _ := pair[1].(string)
		score, err := strconv.ParseInt(text, 10, 54)
		if !isText || err != nil || score < 0 {
			return nil, false
		}
		all = append(all, scored{member, score})
	}
	return all, true
}

// timeOf returns the time in a reply to TIME, in milliseconds since 1970. refused is true if there is none.
func timeOf(reply any) (now int64, refused bool) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return 0, true
	}
	for i, part := range parts {
		text, _ := part.(string)
		n, err := strconv.ParseInt(text, 10, 40)
		if err != nil || n < 0 {
			return 0, true
		}
		if i == 0 {
			now = n * 1000
		} else {
			now += n / 1000
		}
	}
	return now, false
}

// keep replaces what a node holds under a key. Sharers above maxSharers are left out.
func (l *lister) keep(key string, v View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := l.locks[key[len(l.Prefix):]]
	i := slices.IndexFunc(lock.Views, func(of View) bool { return of.Node == l.node })
	switch {
	case i < 0:
		return
	case v.read.IsZero():
		lock.Views = slices.Delete(lock.Views, i, i+1)
		return
	}
	v.waits = lock.Views[i].waits
	for j := range v.Sharers {
		h := &v.Sharers[j]
		for _, other := range lock.Views {
			if j < len(other.Sharers) && other.Sharers[j].Token == h.Token {
				h.Token = other.Sharers[j].Token // shares its memory
			}
		}
		h.Metadata = token.Metadata(string(h.Token))
		l.sharers += sharerSize + len(h.Token)
	}
	if l.sharers > maxSharers {
		v.Sharers, v.More, v.Shown, l.blind = nil, false, false, true
	}
	lock.Views[i] = v
}
