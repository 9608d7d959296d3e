package check_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

var (
	rules  = check.Rules{Lease: 3 * time.Second, Timeout: 300 * time.Millisecond, Nodes: 1}
	fenced = with(func(r *check.Rules) { r.Fenced = true })
)

func with(change func(*check.Rules)) check.Rules {
	r := rules
	change(&r)
	return r
}

// story is a history that a test makes. All times are in milliseconds, all is about the lock a, and a hold is named by its client.
type story []*history.Op

type change func(*history.Op)

func (s *story) add(o history.Op, from, to int64, changes ...change) *history.Op {
	o.ID, o.Name = uint64(len(*s)+1), "a"
	o.Start, o.End = from*1e6, history.Open
	if to < never {
		o.End = to * 1e6
	}
	for _, c := range changes {
		c(&o)
	}
	*s = append(*s, &o)
	return &o
}

const never = 1 << 40

func (s *story) got(hold string, from, to int64, changes ...change) *history.Op {
	return s.add(history.Op{
		Kind: history.Acquire, Client: hold, Hold: hold, Locker: "l", Way: history.Waiting, TTL: 3e9, Validity: 2900e6,
	}, from, to, changes...)
}

func (s *story) call(result string, from, to int64, changes ...change) *history.Op {
	return s.add(history.Op{Kind: history.Acquire, Client: "caller", Locker: "l", Way: history.Trying, Err: result}, from, to, changes...)
}

// of adds an operation of a hold.
func (s *story) of(hold string, kind history.Kind, from, to int64, changes ...change) *history.Op {
	return s.add(history.Op{Kind: kind, Client: hold, Hold: hold}, from, to, changes...)
}

func (s *story) proof(hold string, at int64) { s.of(hold, history.Proof, at, at) }

func (s *story) unlock(hold string, from, to int64) *history.Op {
	return s.of(hold, history.Unlock, from, to)
}

func (s *story) fault(what string, from, to int64, changes ...change) {
	s.add(history.Op{Kind: history.Fault, Client: "nemesis", What: what, Nodes: []int{1}}, from, to, changes...).Name = ""
}

// note adds what is of no name.
func (s *story) note(kind history.Kind, client string, from, to int64) {
	s.add(history.Op{Kind: kind, Client: client}, from, to).Name = ""
}

// down records that a client has no connection to a node.
func (s *story) down(client string, node int, from int64) {
	s.add(history.Op{Kind: history.Down, Client: client, Node: node}, from, from).Name = ""
}

func fence(f uint64) change    { return func(o *history.Op) { o.Fence = f } }
func renews(o *history.Op)     { o.Renews = true }
func reads(o *history.Op)      { o.Reads = true }
func result(err string) change { return func(o *history.Op) { o.Err = err } }
func way(w string) change      { return func(o *history.Op) { o.Way = w } }
func token(t string) change    { return func(o *history.Op) { o.Token = t } }
func within(hold string) change {
	return func(o *history.Op) { o.Outer, o.Way = hold, history.Reentrant }
}
func nodes(n ...int) change             { return func(o *history.Op) { o.Nodes = n } }
func client(c string) change            { return func(o *history.Op) { o.Client = c } }
func lasting(ms int64) change           { return func(o *history.Op) { o.TTL = ms * 1e6 } }
func sorted(s story) []*history.Op      { return slices.SortedStableFunc(slices.Values(s), byStart) }
func byStart(a, b *history.Op) int      { return int(a.Start - b.Start) }
func (s story) history() *check.History { return check.New(sorted(s)) }

// broken returns the names of the promises that the story breaks.
func (s story) broken(t *testing.T, r check.Rules) (promises []string) {
	t.Helper()
	violations, undecided := s.history().Check("a", r)
	assert.Zero(t, undecided)
	for _, v := range violations {
		if !slices.Contains(promises, v.Promise) {
			promises = append(promises, v.Promise)
		}
	}
	return promises
}

// cases are stories that end in two ways: one that is right, as near to the border as may be, and others that are wrong.
type cases map[string]struct {
	rules  check.Rules
	tell   func(s *story)
	breaks []string // none: it is right
}

func (all cases) run(t *testing.T) {
	t.Helper()
	for name, c := range all {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			if c.rules == (check.Rules{}) {
				c.rules = rules
			}
			var s story
			c.tell(&s)
			assert.ElementsMatch(t, c.breaks, s.broken(t, c.rules), "%s", check.Text(s))
		})
	}
}
