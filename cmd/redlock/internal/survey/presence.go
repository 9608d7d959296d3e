package survey

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// presence is what the nodes say of the process of an owner.
type presence struct {
	asked     int // how many nodes have said whether the process listens
	listening int // on how many of them it does
}

// presences are by the owner part of tokens.
type presences map[string]presence

// kept reports whether no process listens on behalf of the owner of a token, as far as need of the nodes know.
func (all presences) kept(held redlock.Token, need int) bool {
	p := all[token.Owner(string(held))]
	return p.asked >= need && p.listening == 0
}

// heard counts how many clients of one more node listen on behalf of some owners.
func (all presences) heard(owners []string, counts []int) {
	for i, owner := range owners {
		p := all[owner]
		p.asked++
		p.listening += min(counts[i], 1)
		all[owner] = p
	}
}

// waiting returns the median of what the nodes say of how many processes wait; -1 if no node says.
func waiting(views []View) int {
	var said []int
	for _, v := range views {
		if v.waits > 0 {
			said = append(said, v.waits-1)
		}
	}
	return median(said)
}

// median returns the median, of two the lower one, and -1 of nothing.
func median(counts []int) int {
	if len(counts) == 0 {
		return -1
	}
	slices.Sort(counts)
	return counts[(len(counts)-1)/2]
}

// Unheard says that no process listens for some holders of a lock, and why that may be.
func Unheard(kept, holders int, kind redlock.Kind) string {
	whom := "the holder"
	if display.Several(kind) {
		whom = fmt.Sprintf("%d of the %s", kept, display.Counted(holders, display.Noun(kind)))
	}
	return whom + ". " + keptCauses
}

const keptCauses = `"run --at-least" or "try" left the lock to its TTL, another process took it over, or its process died, never waited or ` +
	"renewed so far, or may not subscribe."

const (
	// maxChannels is how many channels one command asks for.
	maxChannels = 500
	// maxKey is how many bytes the key of a lock may have that processes wait for.
	maxKey = 1024
)

// channelsOf returns the channels of who waits for keys, and behind them those of owners.
func channelsOf(waits, owners []string) (channels []string) {
	for _, key := range waits {
		channels = append(channels, form.WaitChannel(key))
	}
	for _, owner := range owners {
		channels = append(channels, form.OwnerChannel(owner))
	}
	return channels
}

// askSubscribers returns the command that asks a server how many clients listen on channels. tag is that of the server.
func askSubscribers(tag string, channels []string) []string {
	command := append(make([]string, 0, 2+len(channels)), "PUBSUB", "NUMSUB")
	for _, channel := range channels {
		command = append(command, tag+channel)
	}
	return command
}

// readSubscribers returns how many clients listen on each of the channels. It returns nil if the reply does not say so.
func readSubscribers(tag string, channels []string, reply any) []int {
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

// Presence is what the nodes say of who waits for a lock, and of the processes of its holders.
type Presence struct {
	Waiting int // how many processes wait, -1 if no node says: the median of what the nodes say
	need    int
	owners  presences
}

// Kept reports whether a holder is [Holder.Kept].
func (p Presence) Kept(held redlock.Token) bool { return p.owners.kept(held, p.need) }

// AskPresence asks the nodes that have answered an Inspect who waits for the lock, and whether the processes of those who hold it, or
// share it, listen. It returns within the timeout. A node that fails, or refuses to say, is left out. prefix is that of the keys.
func AskPresence(ctx context.Context, servers []*node.Server, prefix string, state *redlock.LockState, timeout time.Duration) Presence {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p := Presence{Waiting: -1, need: state.Need, owners: presences{}}
	waits, owners := []string{prefix + state.Name}, ownersIn(state)
	var mu sync.Mutex
	var said []int
	var asking sync.WaitGroup
	for i, s := range servers {
		if state.Nodes[i].Err != nil {
			continue
		}
		asking.Go(func() {
			counts := countSubscribers(ctx, s, channelsOf(waits, owners))
			if counts == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			said = append(said, counts[0])
			p.owners.heard(owners, counts[1:])
		})
	}
	asking.Wait()
	p.Waiting = median(said)
	return p
}

// ownersIn returns the owners of the tokens in a state.
func ownersIn(state *redlock.LockState) (owners []string) {
	for _, n := range state.Nodes {
		for _, h := range n.Holders {
			if owner := token.Owner(string(h.Token)); owner != "" {
				owners = append(owners, owner)
			}
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// countSubscribers returns how many clients of a server listen on each of the channels, nil if it does not say.
func countSubscribers(ctx context.Context, s *node.Server, channels []string) (counts []int) {
	c, err := client.Connect(ctx, s)
	if err != nil {
		return nil
	}
	defer c.Close()
	for some := range slices.Chunk(channels, maxChannels) {
		reply, _ := c.Do(ctx, askSubscribers(s.Tag, some)...)
		more := readSubscribers(s.Tag, some, reply)
		if more == nil {
			return nil
		}
		counts = append(counts, more...)
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
	channels := channelsOf(waits, owners)
	m.add(func(replies []any) error {
		if _, refused := replies[0].(*nodeerr.ServerError); refused {
			l.mute = true
			return nil
		}
		if counts := readSubscribers(l.server.Tag, channels, replies[0]); counts != nil {
			l.heard(l.node, waits, owners, counts)
		}
		return nil
	}, askSubscribers(l.server.Tag, channels))
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
	t.owners.heard(owners, counts[len(waits):])
}
