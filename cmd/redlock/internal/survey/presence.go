package survey

import (
	"math"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// presence is what the nodes say of the process of an owner.
type presence struct {
	asked     int // how many nodes have said whether the process listens
	listening int // on how many of them it does
}

// kept reports whether no process listens on behalf of the owner of a token, as far as a majority knows.
func (of *Listing) kept(held redlock.Token) bool {
	p := of.owners[token.Owner(string(held))]
	return p.asked >= of.Need && p.listening == 0
}

// waiting returns the median of what the nodes say of how many processes wait; -1 if no node says.
func waiting(views []View) int {
	var said []int
	for _, v := range views {
		if v.waits > 0 {
			said = append(said, v.waits-1)
		}
	}
	if len(said) == 0 {
		return -1
	}
	slices.Sort(said)
	return said[(len(said)-1)/2]
}

const (
	// maxChannels is how many channels one command asks for.
	maxChannels = 500
	// maxKey is how many bytes the key of a lock may have that processes wait for.
	maxKey = 1024
)

// AskSubscribers returns the command that asks a server how many clients listen on channels. tag is that of the server.
func AskSubscribers(tag string, channels []string) []string {
	command := append(make([]string, 0, 2+len(channels)), "PUBSUB", "NUMSUB")
	for _, channel := range channels {
		command = append(command, tag+channel)
	}
	return command
}

// ReadSubscribers returns how many clients listen on each of the channels. It returns nil if the reply does not say so.
func ReadSubscribers(tag string, channels []string, reply any) []int {
	pairs, isList := reply.([]any)
	if !isList || len(pairs) != 2*len(channels) {
		return nil
	}
	counts := make([]int, len(channels))
	for i, channel := range channels {
		name, isText := pairs[2*i].(string)
		n, isNumber := pairs[2*i+1].(int64)
		if of, tagged := strings.CutPrefix(name, tag); !isText || !tagged || of != channel || !isNumber || n < 0 {
			return nil
		}
		counts[i] = int(min(n, math.MaxInt32))
	}
	return counts
}

// wonder notes that the lister is to ask who waits for a key, and whether the process of its holder listens.
func (l *lister) wonder(key string, v *View) {
	if l.mute {
		return
	}
	if len(key) <= maxKey {
		l.waits = append(l.waits, key)
	}
	if !v.Other {
		l.find(v.Token)
	}
}

// find notes that the lister is to ask whether the process of a token listens, unless it did.
func (l *lister) find(held string) {
	owner := token.Owner(held)
	if l.mute || owner == "" || l.known[owner] {
		return
	}
	l.known[owner] = true
	l.owners = append(l.owners, owner)
}

// askPresence adds the questions about channels to a message.
func (l *lister) askPresence(m *message) {
	if l.mute {
		l.waits, l.owners = nil, nil
	}
	waits, owners := l.waits[:min(len(l.waits), maxChannels)], l.owners[:min(len(l.owners), maxChannels)]
	l.waits, l.owners = l.waits[len(waits):], l.owners[len(owners):]
	if len(waits)+len(owners) == 0 {
		return
	}
	var channels []string
	for _, key := range waits {
		channels = append(channels, form.WaitChannel(key))
	}
	for _, owner := range owners {
		channels = append(channels, form.OwnerChannel(owner))
	}
	m.add(func(replies []any) error {
		if _, refused := replies[0].(*nodeerr.ServerError); refused {
			l.mute = true
			return nil
		}
		if counts := ReadSubscribers(l.server.Tag, channels, replies[0]); counts != nil {
			l.heard(l.node, waits, owners, counts)
		}
		return nil
	}, AskSubscribers(l.server.Tag, channels))
}

// heard takes how many clients of a node wait for keys, and behind these counts, how many listen on behalf of owners.
func (t *table) heard(node int, waits, owners []string, counts []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, key := range waits {
		views := t.locks[key[len(t.Prefix):]].Views
		if at := slices.IndexFunc(views, func(v View) bool { return v.Node == node }); at >= 0 {
			views[at].waits = counts[i] + 1
		}
	}
	for i, owner := range owners {
		p := t.owners[owner]
		p.asked++
		p.listening += min(counts[len(waits)+i], 1)
		t.owners[owner] = p
	}
}
