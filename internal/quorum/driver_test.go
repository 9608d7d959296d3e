package quorum_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// driver drives a queue through the steps of a test case:
//
//	join 1, leave 1           a waiter comes or gives up
//	won, lost                 the round has ended; a lock lives for 10 s
//	unlocked                  the lock has been released here
//	0 free                    an observation of node 0 has shown that; it is tracked
//	0 held a.1 for 1s         the same
//	0 held a.1                the same, without any TTL
//	0 data                    the same, of something that is no lock
//	denied                    a call that does not wait is refused because of a key without a TTL
//	0 free untracked          the same, but no change will be pushed
//	0 silent                  node 0 has not answered an observation
//	0 changed                 node 0 has pushed that the key has changed
//	0 tracking, 0 lost        tracking on node 0 has become active, or is lost
//	0 healed, 0 not healed    a key without a TTL has been deleted, or not
//	peer b                    another process announces that it waits
//	0 turn b c                another has passed the turn, as node 0 delivers it; b and c come next
//	tick                      time has gone by
//
// Each may begin with the time since the start: 5ms: 0 changed.
type driver struct {
	*quorum.Queue[int]
	now time.Time
}

// steady leaves nothing to chance: a pause is a quarter of what it can be, 1 ms at first, and a peer gets 8 ms.
var steady = quorum.Pace{
	First: 4 * time.Millisecond, Most: 400 * time.Millisecond, Heal: time.Second,
	Random: func(time.Duration) time.Duration { return 0 },
}

func newDriver(n int, pace quorum.Pace) *driver {
	return &driver{quorum.NewQueue[int](n, "self", pace), start}
}

func (d *driver) do(t *testing.T, text string) quorum.Actions {
	t.Helper()
	if at, rest, ok := strings.Cut(text, ": "); ok {
		since, err := time.ParseDuration(at)
		require.NoError(t, err)
		d.now, text = start.Add(since), rest
	}
	words := strings.Fields(text)
	node, err := strconv.Atoi(words[0])
	if err == nil {
		return d.atNode(t, node, words[1:])
	}
	switch words[0] {
	case "join":
		return d.Join(d.now, number(t, words[1]))
	case "leave":
		return d.Leave(d.now, number(t, words[1]))
	case "won":
		return d.Won(d.now, quorum.Grant{Start: d.now.Add(-steady.First), TTL: granted.TTL})
	case "lost":
		return d.Lost(d.now)
	case "unlocked":
		return d.Unlocked(d.now)
	case "detached":
		return d.Detached(d.now)
	case "denied":
		return d.Denied(d.now)
	case "peer":
		d.PeerWaits(words[1])
		return quorum.Actions{}
	}
	require.Equal(t, "tick", words[0])
	return d.Tick(d.now)
}

func (d *driver) atNode(t *testing.T, node int, words []string) quorum.Actions {
	seen := quorum.KeyState{Answered: true, Tracked: words[len(words)-1] != "untracked"}
	switch words[0] {
	case "changed":
		return d.Invalidated(d.now, node)
	case "tracking":
		return d.TrackingActive(d.now, node)
	case "lost":
		return d.TrackingLost(d.now, node)
	case "healed", "not":
		return d.Healed(d.now, node, words[0] == "healed")
	case "turn":
		return d.TurnPassed(d.now, node, words[1:])
	case "data":
		seen.Held, seen.Foreign = true, true
	case "silent":
		return d.Observed(d.now, node, quorum.KeyState{})
	case "held":
		seen.Held, seen.Token, seen.NoTTL = true, words[1], true
		seen.Owner, _, _ = strings.Cut(words[1], ".")
		if strings.HasPrefix(words[1], "x") { // a client of another library
			seen.Owner = ""
		}
		if len(words) > 3 {
			ttl, err := time.ParseDuration(words[3])
			require.NoError(t, err)
			seen.TTL, seen.NoTTL = ttl, false
		}
	default:
		require.Equal(t, "free", words[0])
	}
	return d.Observed(d.now, node, seen)
}

func number(t *testing.T, word string) int {
	n, err := strconv.Atoi(word)
	require.NoError(t, err)
	return n
}

// actionsInWords puts what is to be done into words, such as "observe 0 1, tick 5ms".
func actionsInWords(m quorum.Actions) string {
	var words []string
	add := func(is bool, format string, values ...any) {
		if is {
			words = append(words, strings.NewReplacer("[", "", "]", "").Replace(fmt.Sprintf(format, values...)))
		}
	}
	add(m.Try, "try")
	add(m.Hopeless, "dismiss")
	if m.Stuck != nil {
		add(true, "stuck for %v on %v", m.Stuck.Unchanged, m.Stuck.Nodes)
	}
	add(len(m.Observe) > 0, "observe %v", m.Observe)
	for _, k := range m.Heal {
		add(true, "heal %d", k.Node)
	}
	if m.Announce != nil {
		add(true, "announce to %s through %d", m.Announce.To, m.Announce.Node)
	}
	if m.PassTurn != nil {
		add(len(m.PassTurn.Peers) == 0, "turn to %s", m.PassTurn.To)
		add(len(m.PassTurn.Peers) > 0, "turn to %s before %v", m.PassTurn.To, m.PassTurn.Peers)
	}
	add(!m.WakeAt.IsZero(), "tick %v", m.WakeAt.Sub(start))
	return strings.Join(words, ", ")
}

// run goes through steps; actions of "*" are not compared.
func (d *driver) run(t *testing.T, steps []step) {
	t.Helper()
	for i, s := range steps {
		if got := actionsInWords(d.do(t, s.event)); s.actions != "*" {
			require.Equal(t, s.actions, got, "step %d: %s", i+1, s.event)
		}
	}
}

func runAll(t *testing.T, pace quorum.Pace, cases map[string]queueCase) {
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) { newDriver(tt.nodes, pace).run(t, tt.steps) })
	}
}

type queueCase struct {
	nodes int
	steps []step
}
