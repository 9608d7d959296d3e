package lock_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// driver drives a name through the steps of a test case:
//
//	join 1, leave 1           a call begins to wait, or gives up
//	first 1, not first 1      a call begins with a round, as nobody is before it; or it waits, as somebody is
//	share 1, slot 1          one that shares the lock begins to wait
//	won, lost                 the round of the first has ended; a lock lives for 10 s
//	won 1, lost 1             that of another has
//	unlocked                  the lock has been released here; if nobody has it, one that was not waited for
//	tried                     a call that does not wait has taken the lock
//	passed                    the lock has been handed off
//	extended                  the lock has
//	0 free                    an observation of node 0 has shown that; it is tracked
//	0 held a.1 for 1s         the same
//	0 held a.1                the same, without any TTL
//	0 over |slots for 1s      the same, and more share the key than the head has slots
//	0 data                    the same, of something that is no lock
//	denied                    a call that does not wait is refused because of a key without a TTL
//	0 free untracked          the same, but no change will be pushed
//	0 silent                  node 0 has not answered an observation
//	0 changed                 node 0 has pushed that the key has changed
//	0 told                    node 0 has pushed that a process has said what it waits for, or has taken it back
//	0 tracking, 0 lost        tracking on node 0 has become active, or is lost
//	0 healed, 0 not healed    a key without a TTL has been deleted, or not
//	0 heard, 0 unheard        the holder gets the last announcement, which node 0 has passed on, or does not
//	peer b c                  other processes wait, as one of them or a former holder says
//	0 turn b c                another has passed the turn, as node 0 delivers it; b and c come next
//	tick                      time has gone by
//
// Each may begin with the time since the start: 5ms: 0 changed.
type driver struct {
	lock.Name
	t     *testing.T
	rules lock.Rules
	now   time.Time
	ttl   time.Duration // of the locks
	calls map[int]*lock.Call
	first *lock.Call            // that has its round without having waited
	asked map[uint16]wire.Sight // what the last observation of a node was for
	lease *lock.Lease           // nil if nobody has it here
	hold  quorum.Hold

	announced uint32 // the serial number of the last announcement
}

// step is an event in words, and what is to be done then, in words too; "*" is anything.
type step struct{ event, acts string }

type queueCase struct {
	nodes int
	steps []step
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// steady leaves nothing to chance: a pause is a quarter of what it can be, 1 ms at first, and a peer gets 8 ms.
var steady = lock.Pace{
	First: 4 * time.Millisecond, Most: 400 * time.Millisecond, Heal: time.Second,
	Random: func(time.Duration) time.Duration { return 0 },
}

func newDriver(t *testing.T, n int, pace lock.Pace) *driver {
	d := &driver{t: t, now: start, ttl: 10 * time.Second, calls: map[int]*lock.Call{}, asked: map[uint16]wire.Sight{}}
	d.rules = lock.Rules{
		Clock: d, Nodes: n, Timeout: time.Second, Self: owner("self"), Form: form.Exclusive{}, Pace: pace,
		Closed: func() bool { return false }, Broken: func(err error) { panic(err) },
	}
	d.Begin(&d.rules, "name")
	return d
}

// Now implements [quorum.Clock].
func (d *driver) Now() time.Time { return d.now }

func runAll(t *testing.T, pace lock.Pace, cases map[string]queueCase) {
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) { newDriver(t, tt.nodes, pace).run(tt.steps) })
	}
}

func (d *driver) run(steps []step) {
	d.t.Helper()
	for i, s := range steps {
		acts := d.do(s.event)
		for _, a := range acts {
			switch a.Tag.What {
			case lock.Watch:
				d.asked[a.Tag.Node] = a.Tag.Sight
			case lock.Announce:
				d.announced = a.Tag.Serial
			}
		}
		require.NoError(d.t, d.Verify())
		if s.acts != "*" {
			require.Equal(d.t, s.acts, inWords(acts), "step %d: %s", i+1, s.event)
		}
	}
}

func (d *driver) do(text string) (acts []lock.Act) {
	d.t.Helper()
	if at, rest, ok := strings.Cut(text, ": "); ok {
		since, err := time.ParseDuration(at)
		require.NoError(d.t, err)
		d.now, text = start.Add(since), rest
	}
	words := strings.Fields(text)
	if node, err := strconv.Atoi(words[0]); err == nil {
		return d.atNode(node, words[1:])
	}
	switch words[0] {
	case "first":
		d.first = d.call(words[1])
		d.calls[d.first.Of.(int)] = d.first
		require.True(d.t, d.First(d.first))
		return nil
	case "not":
		require.False(d.t, d.First(d.call(words[2])))
		return d.do("join " + words[2])
	case "join", "share", "slot":
		c := d.call(words[1])
		switch words[0] {
		case "share":
			c.Want.Kind = form.KindShared
		case "slot":
			c.Want.Kind, c.Want.Slots = form.KindSlot, 2
		}
		d.calls[c.Of.(int)] = c
		return d.Wait(nil, c)
	case "leave":
		return d.Leave(nil, d.waitsOn(d.named(words[1:])))
	case "won":
		return d.take(d.named(words[1:]), steady.First)
	case "lost":
		c := d.named(words[1:])
		a := d.ask(c, 0)
		return d.Lost(nil, d.waitsOn(c), a)
	case "tried":
		return d.take(d.call("0"), 0)
	case "unlocked":
		if d.lease == nil {
			d.do("tried")
		}
		t := d.lease
		t.Leave(d.now, &d.hold)
		d.lease = nil
		return d.Release(nil, t, new(lock.Release), d.now, true, nil)
	case "extended":
		e := new(lock.Extend)
		d.lease.Extend(nil, e, d.ttl, &d.hold, nil)
		d.answer(&e.Round, &wire.Reply{Answer: quorum.Yes})
		return nil
	case "passed":
		next := d.Next(d.lease, &d.hold)
		require.NotNil(d.t, next)
		acts, d.hold = d.HandOff(nil, d.lease, &d.hold, next.Want)
		return acts
	case "detached":
		t := d.lease
		d.lease = nil
		return d.Detach(nil, t, &d.hold)
	case "denied":
		c := d.call("0")
		a := d.ask(c, 0)
		d.answer(&a.Round, &wire.Reply{Answer: quorum.No, Err: nodeerr.ErrNoExpiry})
		return d.Lost(nil, c, a)
	case "peer":
		return d.PeersWait(nil, 0, peers(words[1:]))
	}
	require.Equal(d.t, "tick", words[0])
	return d.Tick(nil)
}

func (d *driver) call(number string) *lock.Call {
	n, err := strconv.Atoi(number)
	require.NoError(d.t, err)
	return &lock.Call{Want: &lock.Want{TTL: d.ttl, MaxHold: lock.NoLimit}, Of: n}
}

// named returns the call that is named, or the first that waits.
func (d *driver) named(words []string) *lock.Call {
	if len(words) == 0 {
		return d.Waiting()[0]
	}
	return d.calls[d.call(words[0]).Of.(int)]
}

// waitsOn returns what stands for a call in the line from now on.
func (d *driver) waitsOn(c *lock.Call) *lock.Call {
	if c == d.first {
		c = d.call(strconv.Itoa(c.Of.(int)))
		d.WaitOn(d.first, c)
		d.first, d.calls[c.Of.(int)] = nil, c
	}
	return c
}

// ask begins a round that has taken so long when it returns.
func (d *driver) ask(c *lock.Call, took time.Duration) *lock.Acquire {
	d.now = d.now.Add(-took)
	a := new(lock.Acquire)
	d.Ask(nil, a, c, owner("self")+".1", nil)
	d.now = d.now.Add(took)
	return a
}

func (d *driver) answer(r *lock.Round, reply *wire.Reply) {
	for i := range d.rules.Nodes {
		r.Answered(nil, d, wire.Tag{Node: uint16(i)}, reply)
	}
}

// won has the first call win a round that takes so long.
func (d *driver) won(took time.Duration) []lock.Act { return d.take(d.Waiting()[0], took) }

func (d *driver) take(c *lock.Call, took time.Duration) []lock.Act {
	a := d.ask(c, took)
	reply := &wire.Reply{Answer: quorum.Yes}
	if c.Want.Kind.HasSlots() {
		reply.Slot = wire.SlotAt(1)
	}
	d.answer(&a.Round, reply)
	require.Equal(d.t, quorum.Done, a.Outcome())
	d.lease = new(lock.Lease)
	acts := d.Won(nil, c, c.Want, a, d.lease, nil)
	d.hold = d.lease.Hold()
	return acts
}

func (d *driver) atNode(node int, words []string) (acts []lock.Act) {
	tag, seen := wire.Tag{What: lock.Watch, Node: uint16(node), Sight: d.asked[uint16(node)]}, wire.Reply{Tracked: words[len(words)-1] != "untracked"}
	switch words[0] {
	case "changed":
		return d.Changed(nil, node)
	case "told":
		return d.WantChanged(nil, node)
	case "tracking":
		return d.TrackingActive(nil, node)
	case "lost":
		return d.TrackingLost(nil, node)
	case "healed":
		tag.What, seen.Answer = lock.Heal, quorum.Yes
	case "not":
		tag.What, seen.Answer = lock.Heal, quorum.No
	case "turn":
		acts, _ = d.TurnPassed(nil, node, peers(words[1:]))
		return acts
	case "heard", "unheard":
		tag.What, seen.Answer = lock.Announce, map[string]quorum.Answer{"heard": quorum.Yes, "unheard": quorum.No}[words[0]]
		tag.Serial = d.announced
	case "data":
		seen.Answer, seen.Err = quorum.Refused, nodeerr.ErrForeign
	case "silent":
		seen.Answer, seen.Err = quorum.Unknown, nodeerr.ErrTimeout
	case "held", "over":
		seen.Over = words[0] == "over"
		seen.Answer, seen.Value, seen.TTL = quorum.Yes, words[1], wire.NoTTL
		if !strings.HasPrefix(words[1], "x") && !form.IsMark(words[1]) { // a client of another library
			who, number, _ := strings.Cut(words[1], ".")
			seen.Value = fmt.Sprintf("%s.%028s", owner(who), number)
		}
		if len(words) > 3 {
			ttl, err := time.ParseDuration(words[3])
			require.NoError(d.t, err)
			seen.TTL = ttl
		}
	default:
		require.Equal(d.t, "free", words[0])
		seen.Answer = quorum.No
	}
	return d.Answered(nil, tag, &seen)
}

// tries reports whether a round begins.
func tries(acts []lock.Act) bool {
	return slices.ContainsFunc(acts, func(a lock.Act) bool { return a.What == lock.Offer })
}

// owner returns the owner part of the tokens of a process, and called the process.
func owner(name string) string   { return (strings.ToUpper(name) + "ZZZZZZZZ")[:8] }
func called(owner string) string { return strings.ToLower(strings.TrimRight(owner, "Z")) }

// peers returns the processes with names.
func peers(names []string) (all []lock.Peer) {
	for _, name := range names {
		all = append(all, lock.Peer{Owner: owner(name)})
	}
	return all
}

// inWords puts what is to be done into words, such as "observe 0 1, tick 5ms".
func inWords(acts []lock.Act) string {
	said, nodes := map[string]string{}, map[uint8]string{}
	for i := range acts {
		switch a := &acts[i]; a.What {
		case lock.Send:
			nodes[a.Tag.What] += fmt.Sprint(" ", a.Tag.Node)
			if _, ok := form.Wanted(a.Command.Key); ok {
				what := map[bool]string{false: "want", true: "unwant"}[a.Command.CleansUp()]
				said[what] = what + " " + strings.Replace(a.Command.Token, "|"+owner("self"), "", 1)
			}
		case lock.Offer:
			said["try"] += "try"
			if a.Call.Want.Kind.Several() {
				said["try"] = strings.TrimPrefix(fmt.Sprint(strings.TrimSuffix(said["try"], "try"), " ", a.Call.Of), " ")
			}
		case lock.Foreign:
			said["dismiss"] = "dismiss"
		case lock.Warn:
			said["stuck"] = fmt.Sprintf("stuck for %v on %s", a.Stuck.Unchanged, strings.Trim(fmt.Sprint(a.Stuck.Nodes), "[]"))
		case lock.Wake:
			said["tick"] = fmt.Sprintf("tick %v", a.At.Sub(start))
		case lock.Publish:
			m := a.Message
			said[m.What] = fmt.Sprintf("announce to %s through %d", called(m.To), m.Node)
			if m.What == lock.Yours {
				said[m.What] = "turn to " + called(m.To)
			}
			for j, p := range m.Peers {
				if j > 0 || p.Owner != owner("self") {
					said[m.What] += []string{" before ", " "}[min(j, 1)] + called(p.Owner)
				}
			}
		}
	}
	if n := nodes[lock.Watch]; n != "" {
		said["observe"] = "observe" + n
	}
	if n := nodes[lock.Heal]; n != "" {
		said["heal"] = "heal" + n
	}
	var words []string
	for _, what := range []string{"unwant", "try", "dismiss", "want", "stuck", "observe", "heal", lock.Waits, lock.Yours, "tick"} {
		if said[what] != "" {
			words = append(words, said[what])
		}
	}
	return strings.Join(words, ", ")
}
