package lock_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
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

var update = flag.Bool("update", false, "write what comes out into testdata")

// A scenario is a story: what happens, a line each, and indented below it what comes of it.
//
//	nodes 5, nodes 5 fenced      first of all; time stands still then
//	acquire, extend, release     a round begins; TTLs are 10 s
//	tracked                      extensions are, from now on
//	0 changed                    node 0 announces that the key may have changed
//	0 holds it, 0 holds another, 0 holds nothing, 0 silent    node 0 answers an observation
//	0 reconnects                 and announces nothing that it has tracked before
//	clean up                     if there is something left
//	0 yes, 0 yes 17              node 0 answers, and grants the number 17
//	0 yes by a                   the same, and its server is known as a
//	0 no, 0 recreated, 0 unknown, 0 refused
//	0 late yes                   the same, after a Reply that there was no answer in time
//	0 raised, 0 not raised       node 0 answers a raise
//	0 cleaned up                 node 0 answers the release of a lost acquire
//	0 has z, 0 has z for ever, 0 has data, 0 has nothing    node 0, which has said no, answers what is there
//	0 still has token, 0 still has nothing    node 0 answers what is there of a lock that was detached
//	not sent to 0 1 2            these have not taken the command, as their connections are down
//	again                        the node timeout has passed since a node has granted late what was detached
//	give up                      the caller does
//	overdue                      the node timeout is over
//	after 5s                     time goes by
//	why                          what each node has to say
//	failed                       which extension has failed, if none has succeeded since
//
// Calls that wait have names of one letter, and so have other processes:
//
//	a waits, a leaves            a call comes, or gives up
//	a asks                       its round begins, which it was offered
//	a goes on                    its round was lost
//	0 shows nothing, 0 shows z for 5s, 0 shows z for ever, 0 shows data    node 0 answers what a waiter has asked
//	0 deleted it                 it has deleted a key without a TTL
//	0 changed, 0 tracks, 0 reconnects    as above; 0 tracks: it announces changes from now on
//	unlock                       the lock is handed off, or released
//	detach                       the lock is left to another process
//	tick                         the time of the last wake-up has come
//	z waits elsewhere            a message says so
//	0 says that it is our turn, then y    another, through node 0
func TestName_Scenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			story := tell(t, string(text))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(story), 0o600))
			}
			require.Equal(t, string(text), story)
		})
	}
}

// teller has what a story needs.
type teller struct {
	*testing.T
	rules   lock.Rules
	name    lock.Name
	call    lock.Call
	now     time.Time
	lease   *lock.Lease
	ended   quorum.Ending
	serials map[int]uint32 // of the last observations
	hold    quorum.Hold
	calls   map[string]*lock.Call
	asks    *lock.Call // whose round is under way; nil: one that does not wait
	wakeAt  time.Time
	acquire *lock.Acquire
	round   *lock.Round
	kind    string
	outcome quorum.Outcome
}

// Now implements [quorum.Clock].
func (s *teller) Now() time.Time { return s.now }

// tell returns a story with what comes of each line.
func tell(t *testing.T, text string) string {
	s, told := &teller{T: t, serials: map[int]uint32{}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, strings.Builder{}
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "  "):
		case strings.TrimSpace(line) == "" || line[0] == '#':
			told.WriteString(line)
		default:
			told.WriteString(line)
			for _, what := range s.happens(strings.TrimSpace(line)) {
				told.WriteString("  " + what + "\n")
			}
		}
	}
	return told.String()
}

var outcomes = map[quorum.Outcome]string{
	quorum.Done: "done", quorum.Denied: "denied", quorum.NoQuorum: "no quorum", quorum.TooLate: "too late",
}

func (s *teller) happens(line string) []string {
	words := strings.Fields(line)
	node, err := strconv.Atoi(words[0])
	var acts []lock.Act
	switch {
	case err == nil && words[1] == "changed":
		acts = s.name.Changed(nil, node)
	case err == nil && words[1] == "tracks":
		acts = s.name.TrackingActive(nil, node)
	case err == nil && words[1] == "reconnects":
		acts = s.name.TrackingLost(nil, node)
	case err == nil && words[1] == "says":
		var peers []lock.Peer
		for _, who := range words[min(len(words), 8):] {
			peers = append(peers, lock.Peer{Owner: who})
		}
		acts, _ = s.name.TurnPassed(nil, node, peers)
	case err == nil && words[1] == "deleted":
		acts = s.name.Answered(nil, wire.Tag{What: lock.Heal, Node: uint16(node)}, &wire.Reply{Answer: quorum.Yes})
	case err == nil && words[1] == "shows":
		acts = s.name.Answered(nil, wire.Tag{What: lock.Watch, Node: uint16(node)}, s.shown(words[2:]))
	case line == "tick":
		s.now = s.wakeAt
		acts = s.name.Tick(nil)
	case line == "unlock":
		return s.unlock()
	case line == "detach":
		s.ended = quorum.Released
		acts = s.name.Detach(nil, s.lease, &s.hold)
	case err != nil && len(words[0]) == 1:
		acts = s.waits(words[0], line)
	case err == nil && (slices.Contains(words, "holds") || slices.Contains(words, "silent")):
		acts = s.observed(node, words[1:])
	case err == nil && words[1] == "still":
		tag := wire.Tag{What: lock.Detached, Node: uint16(node), Serial: s.serials[node]}
		acts = s.round.Answered(nil, s, tag, s.shown(append(words[3:], "for", "5s")))
	case err == nil && words[1] == "has":
		acts = s.round.Answered(nil, s, wire.Tag{What: lock.Look, Node: uint16(node)}, s.shown(words[2:]))
	case err == nil:
		tag, reply := s.reply(node, words[1:])
		acts = s.round.Answered(nil, s, tag, reply)
	case line == "clean up":
		acts = s.name.CleanUp(nil, s.lease)
	case line == "tracked":
		s.lease.Tracked = true
	case words[0] == "nodes":
		s.begin(number(s, words[1]), len(words) > 2)
		return nil
	case words[0] == "after":
		d, err := time.ParseDuration(words[1])
		require.NoError(s, err)
		s.now = s.now.Add(d)
		return nil
	case words[0] == "why":
		return s.why()
	case line == "again":
		acts = s.round.Again(nil)
	case line == "give up":
		acts = s.round.GiveUp(nil, s)
	case line == "failed":
		_, began, _ := s.lease.Failed()
		if began.IsZero() {
			return []string{"none"}
		}
		return []string{fmt.Sprintf("that of %v ago", s.now.Sub(began))}
	case line == "overdue":
		acts = s.round.Overdue(nil, s)
	case words[0] == "not":
		var nodes []int
		for _, word := range words[3:] {
			nodes = append(nodes, number(s, word))
			s.round.Note(number(s, word), nodeerr.ErrBroken)
		}
		acts = s.round.Unsent(nil, s, nodes)
	default:
		acts = s.ask(words[0])
	}
	return s.comesOf(acts)
}

func (s *teller) begin(nodes int, fenced bool) {
	s.rules = lock.Rules{
		Clock: s, Wall: s.Now, Nodes: nodes, Self: "self", Form: form.Exclusive{}, Fenced: &form.Fenced{Keep: form.DefaultKeep},
		Drift: quorum.Drift{Factor: 0.01, Floor: 2 * time.Millisecond}, Timeout: time.Second,
		Closed: func() bool { return false }, Broken: func(err error) { panic(err) },
	}
	if fenced {
		s.rules.Form = s.rules.Fenced
	}
	s.name.Begin(&s.rules, "name")
	s.rules.Pace = lock.Pace{
		First: 4 * time.Millisecond, Most: 400 * time.Millisecond, Heal: time.Second, Handoff: 100 * time.Millisecond,
		Random: func(time.Duration) time.Duration { return 0 },
	}
	s.calls = map[string]*lock.Call{}
	s.call = lock.Call{Want: &lock.Want{TTL: 10 * time.Second, MaxHold: lock.NoLimit}}
}

func (s *teller) ask(kind string) []lock.Act {
	s.kind, s.outcome = kind, quorum.Undecided
	switch kind {
	case "acquire":
		s.acquire, s.asks = new(lock.Acquire), &s.call
		s.round = &s.acquire.Round
		return s.name.Ask(nil, s.acquire, s.asks, "token", nil)
	case "extend":
		e := new(lock.Extend)
		s.round = &e.Round
		return s.lease.Extend(nil, e, 10*time.Second, &s.hold, nil)
	}
	require.Equal(s, "release", kind)
	s.lease.End(s.now, quorum.Released)
	s.ended = quorum.Released
	r := new(lock.Release)
	s.round = &r.Round
	return s.name.Release(nil, s.lease, r, s.now, true, nil)
}

func (s *teller) observed(node int, words []string) []lock.Act {
	tag := wire.Tag{What: lock.Observe, Node: uint16(node), Serial: s.serials[node]}
	reply := &wire.Reply{Answer: quorum.Yes, Value: "another", Late: words[0] == "late"}
	switch words[len(words)-1] {
	case "it":
		reply.Value = "token"
	case "nothing":
		reply.Answer, reply.Err = quorum.No, nodeerr.ErrAbsent
	case "silent":
		reply.Answer, reply.Err = quorum.Unknown, nodeerr.ErrTimeout
	}
	return s.lease.Answered(nil, tag, reply)
}

func (s *teller) reply(node int, words []string) (wire.Tag, *wire.Reply) {
	tag, reply := wire.Tag{Node: uint16(node)}, &wire.Reply{Late: words[0] == "late"}
	if reply.Late {
		words = words[1:]
	}
	if i := slices.Index(words, "by"); i > 0 {
		reply.Server, words = words[i+1], words[:i]
	}
	switch words[0] {
	case "yes":
		reply.Answer = quorum.Yes
		if len(words) > 1 {
			reply.Fence = uint64(number(s, words[1]))
		}
	case "no":
		reply.Answer, reply.Err = quorum.No, map[string]error{"acquire": nodeerr.ErrHeld}[s.kind]
		if reply.Err == nil {
			reply.Err = nodeerr.ErrAbsent
		}
	case "recreated":
		reply.Answer, reply.Err = quorum.Recreated, nodeerr.ErrRecreated
	case "unknown":
		reply.Answer, reply.Err = quorum.Unknown, nodeerr.ErrTimeout
	case "refused":
		reply.Answer, reply.Err = quorum.Refused, nodeerr.ErrQuarantined
	case "raised":
		tag.What, reply.Answer = lock.Raise, quorum.Yes
	case "not":
		tag.What, reply.Answer, reply.Err = lock.Raise, quorum.No, nodeerr.ErrAbsent
	default:
		require.Equal(s, "cleaned", words[0])
		tag.What, reply.Answer = lock.CleanUp, quorum.Yes
	}
	return tag, reply
}

// comesOf puts what is to be done into words.
func (s *teller) comesOf(acts []lock.Act) (said []string) {
	var won []lock.Act
	last := ""
	for _, a := range acts {
		what, node := "", fmt.Sprint(" ", a.Tag.Node)
		switch {
		case a.What == lock.End, a.What == lock.Over: // it is told below
			continue
		case a.What != lock.Send && a.What != lock.AwaitCleanUp && a.What != lock.Again:
			what, node = s.act(&a), ""
		case a.Tag.What == lock.Watch:
			what = "watch"
		case a.Tag.What == lock.Heal:
			what = "delete what has no TTL on"
		case a.What == lock.AwaitCleanUp:
			what, node = "await the clean-up", ""
		case a.What == lock.Again:
			what, node = "again later", ""
		case a.Tag.What == lock.Observe, a.Tag.What == lock.Detached:
			what = "observe"
			s.serials[int(a.Tag.Node)] = a.Tag.Serial
		case a.Tag.What == lock.Forgotten:
			what = "release"
		case a.Tag.What == lock.Raise:
			what = fmt.Sprintf("raise %d to %d on", a.Raise.Granted, a.Raise.Token)
		case a.Tag.What == lock.CleanUp:
			what = "clean up"
		case a.Tag.What == lock.Look:
			what = "look at"
		default:
			what = s.kind
			if a.Command.Tracked {
				what += ", tracked,"
			}
			if !a.At.IsZero() {
				what += fmt.Sprintf(" within %v,", a.At.Sub(s.now))
			}
		}
		if what == last {
			said[len(said)-1] += node
		} else {
			said = append(said, what+node)
		}
		last = what
	}
	if s.round == nil {
		return said
	}
	if s.round.Outcome() != s.outcome {
		s.outcome = s.round.Outcome()
		what := outcomes[s.outcome]
		if s.kind == "acquire" && s.outcome == quorum.Done {
			s.lease, s.ended = new(lock.Lease), quorum.NotEnded
			won = s.name.Won(nil, s.asks, s.asks.Want, s.acquire, s.lease, nil)
			id := s.lease.ID()
			s.hold = s.lease.Hold()
			what += fmt.Sprintf(", held for %v", s.lease.Remaining(s.now))
			if id.Number > 0 {
				what += fmt.Sprintf(", with fencing token %d", id.Number)
			}
		}
		said = append(said, what)
		for i := range won {
			said = append(said, s.act(&won[i]))
		}
	}
	if s.lease != nil && s.lease.At(s.now) != s.ended {
		s.ended = s.lease.At(s.now)
		said = append(said, map[quorum.Ending]string{quorum.Gone: "the lock is lost", quorum.Expired: "the lock has expired"}[s.ended])
	}
	return said
}

func (s *teller) why() (said []string) {
	for i := range s.rules.Nodes {
		if of, twin := s.round.Duplicate(i); twin {
			said = append(said, fmt.Sprintf("%d: has voted for node %d", i, of))
			continue
		}
		why := errors.New("yes")
		if reason := s.round.Reason(i); reason != nil {
			why = reason
		}
		said = append(said, fmt.Sprintf("%d: %v", i, why))
	}
	return said
}

func number(s *teller, word string) int {
	n, err := strconv.Atoi(word)
	require.NoError(s, err)
	return n
}
