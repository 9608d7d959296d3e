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

// counter is a queue that is told stories. Its steps are
//
//	join 1, leave 1           a waiter comes or gives up
//	won, lost                 the round has ended; a lock lives for 10 s
//	unlocked                  the lock has been released here
//	0 free                    node 0 has shown that, and tells of changes
//	0 held a.1 for 1s         the same
//	0 held a.1                the same, without any TTL
//	0 free unwatched          the same, but it does not tell of changes
//	0 silent                  node 0 has not answered a look
//	0 changed, hearing, deaf  node 0 tells it, or its ear does
//	0 healed, not healed      a key without a TTL has been deleted, or not
//	heard b                   another process says that it waits
//	0 told, 0 told b c        another says through node 0 that it is our turn, and b and c come next
//	tick                      time has gone by
//
// and each may begin with the time since the start, such as 5ms: 0 changed.
type counter struct {
	*quorum.Queue[int]
	now time.Time
}

// At its pace nothing is left to chance: a pause is a quarter of what it can be, 1 ms at first, and others
// are given 8 ms.
var steady = quorum.Pace{
	First: 4 * time.Millisecond, Most: 400 * time.Millisecond, Heal: time.Second,
	Random: func(time.Duration) time.Duration { return 0 },
}

func newCounter(n int, pace quorum.Pace) *counter {
	return &counter{quorum.NewQueue[int](n, "self", pace), start}
}

func (c *counter) do(t *testing.T, text string) quorum.Moves {
	t.Helper()
	if at, rest, ok := strings.Cut(text, ": "); ok {
		d, err := time.ParseDuration(at)
		require.NoError(t, err)
		c.now, text = start.Add(d), rest
	}
	words := strings.Fields(text)
	node, err := strconv.Atoi(words[0])
	if err == nil {
		return c.atNode(t, node, words[1:])
	}
	switch words[0] {
	case "join":
		return c.Join(c.now, number(t, words[1]))
	case "leave":
		return c.Leave(c.now, number(t, words[1]))
	case "won":
		return c.Won(c.now, quorum.Grant{Start: c.now.Add(-steady.First), TTL: granted.TTL})
	case "lost":
		return c.Lost(c.now)
	case "unlocked":
		return c.Unlocked(c.now)
	case "heard":
		c.Heard(words[1])
		return quorum.Moves{}
	}
	require.Equal(t, "tick", words[0])
	return c.Tick(c.now)
}

func (c *counter) atNode(t *testing.T, node int, words []string) quorum.Moves {
	seen := quorum.Sight{Answered: true, Watched: words[len(words)-1] != "unwatched"}
	switch words[0] {
	case "changed":
		return c.Changed(c.now, node)
	case "hearing":
		return c.Hearing(c.now, node)
	case "deaf":
		return c.Deaf(c.now, node)
	case "healed", "not":
		return c.Healed(c.now, node, words[0] == "healed")
	case "told":
		return c.Told(node, words[1:])
	case "silent":
		return c.Saw(c.now, node, quorum.Sight{})
	case "held":
		seen.Held, seen.Token, seen.NoTTL = true, words[1], true
		seen.Owner, _, _ = strings.Cut(words[1], ".")
		if len(words) > 3 {
			ttl, err := time.ParseDuration(words[3])
			require.NoError(t, err)
			seen.TTL, seen.NoTTL = ttl, false
		}
	default:
		require.Equal(t, "free", words[0])
	}
	return c.Saw(c.now, node, seen)
}

func number(t *testing.T, word string) int {
	n, err := strconv.Atoi(word)
	require.NoError(t, err)
	return n
}

// movesInWords puts what is to be done into words, such as "look 0 1, tick 5ms".
func movesInWords(m quorum.Moves) string {
	var words []string
	add := func(is bool, format string, values ...any) {
		if is {
			words = append(words, strings.NewReplacer("[", "", "]", "").Replace(fmt.Sprintf(format, values...)))
		}
	}
	add(m.Try, "try")
	add(len(m.Look) > 0, "look %v", m.Look)
	add(len(m.Heal) > 0, "heal %v", m.Heal)
	if m.Announce != nil {
		add(true, "announce to %s through %d", m.Announce.To, m.Announce.Node)
	}
	if m.Pass != nil {
		add(len(m.Pass.Rivals) == 0, "pass to %s", m.Pass.To)
		add(len(m.Pass.Rivals) > 0, "pass to %s before %v", m.Pass.To, m.Pass.Rivals)
	}
	add(!m.At.IsZero(), "tick %v", m.At.Sub(start))
	return strings.Join(words, ", ")
}

// tell tells a queue a story; an effect of "*" is not looked at.
func (c *counter) tell(t *testing.T, story []step) {
	t.Helper()
	for i, s := range story {
		if got := movesInWords(c.do(t, s.event)); s.effects != "*" {
			require.Equal(t, s.effects, got, "step %d: %s", i+1, s.event)
		}
	}
}

func tellAll(t *testing.T, pace quorum.Pace, stories map[string]queueStory) {
	for name, tt := range stories {
		t.Run(name, func(t *testing.T) { newCounter(tt.nodes, pace).tell(t, tt.story) })
	}
}

type queueStory struct {
	nodes int
	story []step
}
