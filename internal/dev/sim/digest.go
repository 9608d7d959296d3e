package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Digest runs the plans of n seeds, from first on, on all processors, and returns a hash of what has happened in them: of the lines
// that [Record] returns. It stays the same when code is moved.
func Digest(first, n uint64) string {
	var next atomic.Uint64
	var workers sync.WaitGroup
	sums := make([][sha256.Size]byte, n)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				sums[i] = sum(NewPlan(first + i))
			}
		})
	}
	workers.Wait()
	all := sha256.New()
	for i := range sums { // in the order of the seeds
		_, _ = all.Write(sums[i][:])
	}
	return hex.EncodeToString(all.Sum(nil))
}

// sum is the hash of one plan.
func sum(p Plan) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(Record(p), "\n")))
}

// Record is a Trace that tells also what each name of a client asks for. No line of a Trace is about a planned wake-up, for example.
// Strings that go over the wire stand by what they mean: scripts, marks, and the keys beside that of a lock.
func Record(p Plan) []string {
	var trace []string
	_ = run(p, &trace, true)
	meant := meanings(p)
	for i := range trace {
		trace[i] = meant.Replace(trace[i])
	}
	return trace
}

// What an Act does, and what it sends, in a Record.
var (
	deeds = [...]string{
		lock.Send: "send", lock.AwaitCleanUp: "await the clean-up", lock.Again: "look again later", lock.End: "end", lock.Renew: "renew", lock.Over: "over",
		lock.Offer: "offer", lock.Foreign: "refuse", lock.Wake: "wake", lock.Publish: "publish", lock.Listen: "listen", lock.Warn: "warn",
	}
	errands = [...]string{
		lock.Vote: "vote", lock.Raise: "raise", lock.CleanUp: "clean up", lock.Observe: "observe", lock.Forgotten: "forget",
		lock.Watch: "watch", lock.Heal: "heal", lock.Look: "look", lock.Detached: "look again", lock.Announce: "announce",
	}
)

// asks adds to the trace what a name asks for, if that is recorded.
func (n *name) asks(a *lock.Act) {
	if c := n.client; c.recorded {
		c.log("client %d: %s asks: %s", c.number, n.key, told(a))
	}
}

// told puts an Act in words.
func told(a *lock.Act) string {
	text := deeds[a.What]
	if a.What == lock.Send {
		text += fmt.Sprintf(" to node %d: %s %d: %s", a.Tag.Node, errands[a.Tag.What], serial(a.Tag), strings.Join(words(a.Command), " "))
	}
	if !a.At.IsZero() {
		text += fmt.Sprintf(" at %v", a.At.Sub(epoch))
	}
	if m := a.Message; m != nil {
		text += fmt.Sprintf(" through node %d to %s: %s %v", m.Node, m.To, m.What, m.Peers)
	}
	if s := a.Stuck; s != nil {
		text += fmt.Sprintf(" of nodes %v for %v", s.Nodes, s.Unchanged)
	}
	return text
}

// serial is what tells an observation from another.
func serial(t wire.Tag) uint32 { return t.Serial | uint32(t.Sight.Kind) | uint32(t.Sight.Slots)<<8 }

// words are those of a command, with its script by name.
func words(c *wire.Command) []string {
	words := c.Words(nil, c.Script, false)
	if c.Script == nil {
		return words
	}
	words[1] = nameOf[c.Script]
	return words[1:]
}

// nameOf has the names of the scripts.
var nameOf = func() map[*wire.Script]string {
	names := map[*wire.Script]string{}
	for name, script := range form.Scripts {
		names[script] = name
	}
	return names
}()

// meanings puts what they mean in the place of strings that nodes are sent: those that package form makes.
func meanings(p Plan) *strings.Replacer {
	var read, slot, fenced wire.Command
	var replace []string
	for i := range p.Names {
		m := form.ID{Key: key(i)}
		form.Shared{Kind: form.KindShared}.Acquire(&read, m, form.Ask{})
		form.Shared{Kind: form.KindSlot}.Acquire(&slot, m, form.Ask{})
		new(form.Fenced).Acquire(&fenced, m, form.Ask{})
		keys := slot.Args[2:] // behind their number, and that of the lock
		replace = append(replace, keys[0], m.Key+"<sharers>", keys[1], m.Key+"<wanted>", keys[2], m.Key+"<slots>", fenced.Second, m.Key+"<counter>")
	}
	return strings.NewReplacer(append(replace, read.Args[4], "<readers>", slot.Args[5], "<permits>", "|wanted", "<waits>")...)
}
