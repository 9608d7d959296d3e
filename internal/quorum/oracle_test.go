package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

const mostNodes = 7

// oracle knows what an event has to bring about. It is simple on purpose: it remembers
// every answer and counts all of them again at each event.
type oracle interface{ expect(event) quorum.Actions }

// answers is what the oracles remember.
type answers struct {
	n       int
	given   [mostNodes]quorum.Answer
	outcome quorum.Outcome // as reported
}

// note takes an event, and reports whether it can decide anything: a node answers once, and an outcome is reported once.
func (a *answers) note(e event) bool {
	if e.what == aVote {
		if a.given[e.node] != quorum.Pending || e.vote == quorum.Pending {
			return false
		}
		a.given[e.node] = e.vote
	}
	return a.outcome == quorum.Undecided
}

func (a *answers) count(wanted ...quorum.Answer) (number int) {
	for _, vote := range a.given[:a.n] {
		if slices.Contains(wanted, vote) {
			number++
		}
	}
	return number
}

// majorityOf is the smallest number that two holders cannot both have.
func majorityOf(n int) int {
	number := 1
	for number+number <= n {
		number++
	}
	return number
}

// acquireOracle knows the protocol: won at the majority-th yes if validity
// is left; lost once no majority can come, and then the release goes to every node but
// those to which nothing was sent and those that said no, which are observed; the loss is reported when
// its reason is certain and every node that answered has answered that too.
type acquireOracle struct {
	answers
	lost     bool
	late     bool
	released [mostNodes]bool
}

func (o *acquireOracle) expect(e event) (actions quorum.Actions) {
	if e.what == aRelease {
		o.released[e.node] = true
	}
	if !o.note(e) {
		return actions
	}
	enough := o.count(quorum.Yes) == majorityOf(o.n)
	if e.what == aVote && !o.lost && enough && e.at.Before(deadline) {
		o.outcome = quorum.Done
		return quorum.Actions{Outcome: quorum.Done}
	}
	ends := e.what == aStop || e.what == aVote && (enough || o.best() < majorityOf(o.n))
	if ends && !o.lost {
		o.lost, o.late = true, e.what == aVote && enough
		actions.AwaitCleanUp = true
		for node, vote := range o.given[:o.n] {
			switch {
			case vote == quorum.No && e.what != aStop:
				actions.Observe = append(actions.Observe, node)
			case vote != quorum.No && vote != quorum.Unsent:
				actions.Release = append(actions.Release, node)
			}
		}
	}
	if e.what == aStop || o.lost && o.certain() && o.confirmed() {
		o.outcome = o.reason()
		actions.AwaitCleanUp = false
		actions.Outcome = o.outcome
	}
	return actions
}

// best is how many nodes vote yes if all that are still to answer do.
func (o *acquireOracle) best() int { return o.count(quorum.Yes, quorum.Pending) }

// certain reports whether the votes to come cannot change the reason.
func (o *acquireOracle) certain() bool {
	atLeast := o.count(quorum.Yes, quorum.No)
	atMost := o.count(quorum.Yes, quorum.No, quorum.Pending)
	return o.late || atLeast >= majorityOf(o.n) || atMost < majorityOf(o.n)
}

func (o *acquireOracle) confirmed() bool {
	for node, vote := range o.given[:o.n] {
		answered := vote == quorum.Yes || vote == quorum.No || vote == quorum.Refused
		if answered && !o.released[node] {
			return false
		}
	}
	return true
}

// reason is Denied if a majority answered and no majority of yes is possible.
func (o *acquireOracle) reason() quorum.Outcome {
	switch {
	case o.late:
		return quorum.TooLate
	case o.count(quorum.Yes, quorum.No) >= majorityOf(o.n) && o.best() < majorityOf(o.n):
		return quorum.Denied
	default:
		return quorum.NoQuorum
	}
}

// extendOracle knows the protocol: confirmed by a majority before the old
// deadline and before the new one, or failed. Nothing is sent behind it.
type extendOracle struct {
	answers
	new time.Time
}

func (o *extendOracle) expect(e event) quorum.Actions {
	if !o.note(e) {
		return quorum.Actions{}
	}
	yes, no, open := o.count(quorum.Yes), o.count(quorum.No, quorum.Recreated), o.count(quorum.Pending)
	majority := majorityOf(o.n)
	switch {
	case !e.at.Before(deadline):
		o.outcome = quorum.TooLate
	case e.what == aStop:
		o.outcome = quorum.NoQuorum
	case yes == majority && e.at.Before(o.new):
		o.outcome = quorum.Done
	case yes == majority:
		o.outcome = quorum.TooLate
	case o.n-no < majority: // it cannot have been ours
		o.outcome = quorum.Denied
	case yes+open < majority && o.n-no-open >= majority: // neither can come any more
		o.outcome = quorum.NoQuorum
	}
	return quorum.Actions{Outcome: o.outcome}
}

// releaseOracle asks what every way in which the open votes can still come would lead
// to, and reports an outcome once they all agree.
type releaseOracle struct{ answers }

func (o *releaseOracle) expect(e event) quorum.Actions {
	if !o.note(e) {
		return quorum.Actions{}
	}
	yes, no, open := o.count(quorum.Yes), o.count(quorum.No), o.count(quorum.Pending)
	ends := map[quorum.Outcome]bool{}
	for moreYes := range open + 1 {
		for moreNo := range open - moreYes + 1 {
			switch {
			case yes+moreYes >= majorityOf(o.n):
				ends[quorum.Done] = true
			case o.n-no-moreNo < majorityOf(o.n):
				ends[quorum.Denied] = true
			default:
				ends[quorum.NoQuorum] = true
			}
		}
	}
	if e.what == aStop {
		o.outcome = quorum.NoQuorum
	} else if len(ends) == 1 {
		for o.outcome = range ends {
		}
	}
	return quorum.Actions{Outcome: o.outcome}
}

// match is a machine beside its oracle.
type match struct {
	t        *testing.T
	machine  machine
	oracle   oracle
	lease    *quorum.Lease // that is extended or released
	history  []event
	outcome  quorum.Outcome // as reported
	released []int          // the nodes to which the release was sent, or the observation in its place
}

// play feeds an event to both and compares their actions.
func (m *match) play(e event) {
	got, want := feed(m.machine, e), m.oracle.expect(e)
	m.history = append(m.history, e)
	if got.Outcome != want.Outcome || got.AwaitCleanUp != want.AwaitCleanUp ||
		!slices.Equal(got.Release, want.Release) || !slices.Equal(got.Observe, want.Observe) {
		require.Equal(m.t, describe(want), describe(got), "after %+v", m.history)
	}
	m.outcome = max(m.outcome, got.Outcome)
	m.released = slices.Concat(m.released, got.Release, got.Observe)
}

// reported checks that the caller has its outcome.
func (m *match) reported() {
	if m.outcome == quorum.Undecided {
		require.Fail(m.t, "nothing was reported", "after %+v", m.history)
	}
}

// end checks what has come of a match when every event has come, and more that must bring about nothing.
func (m *match) end(at time.Time) {
	if o, acquires := m.oracle.(*acquireOracle); acquires {
		for node := range o.n {
			m.play(event{what: aRelease, node: node})
		}
	}
	m.reported()
	m.play(event{what: aVote, at: at, vote: quorum.Yes})
	m.play(event{what: aStop, at: at})
}

// kind is a kind of machine.
type kind struct {
	begin       func(t *testing.T, n int, asked []int) *match
	votes       []quorum.Answer
	early, late time.Time
	some        bool // some nodes need not be asked: those that the acquire has not reached
}

var kinds = map[string]kind{
	"acquire":        {begin: beginAcquire, votes: votes, early: inTime, late: deadline},
	"extend":         {begin: beginExtend(longer, deadline.Add(time.Hour)), votes: extendVotes, early: inTime, late: deadline},
	"extend by less": {begin: beginExtend(shorter, usedUp), votes: extendVotes, early: usedUp.Add(-1), late: usedUp},
	"release":        {begin: beginRelease, votes: votes, early: deadline, late: deadline.Add(time.Hour), some: true},
}

var extendVotes = append(slices.Clone(votes), quorum.Recreated)

func beginAcquire(t *testing.T, n int, _ []int) *match {
	return &match{t: t, machine: new(quorum.Acquire).Begin(n, granted), oracle: &acquireOracle{answers: answers{n: n}}}
}

func beginExtend(grant quorum.Grant, ends time.Time) func(t *testing.T, n int, _ []int) *match {
	return func(t *testing.T, n int, _ []int) *match {
		lease := quorum.NewLease(n, granted)
		return &match{t: t, lease: lease, machine: new(quorum.Extend).Begin(lease, grant), oracle: &extendOracle{answers{n: n}, ends}}
	}
}

func beginRelease(t *testing.T, n int, asked []int) *match {
	lease, o := wonWith(n, asked...), &releaseOracle{answers{n: n}}
	for node := range n {
		if !slices.Contains(asked, node) {
			o.given[node] = quorum.No
		}
	}
	return &match{t: t, lease: lease, machine: new(quorum.Release).Begin(lease, midway), oracle: o}
}

// wonWith begins the lease of an acquire that some nodes have granted, and that was not sent to the others.
func wonWith(n int, nodes ...int) *quorum.Lease {
	a := new(quorum.Acquire).Begin(n, granted)
	for node := range n {
		answer := quorum.Unsent
		if slices.Contains(nodes, node) {
			answer = quorum.Yes
		}
		a.Vote(instant(start), node, answer, "")
	}
	lease := a.Lease()
	return &lease
}

// asked lists the sets of nodes that are asked, all of them or a majority at least.
func (k kind) asked(n int) (sets [][]int) {
	for _, word := range words(n, true, false) {
		var set []int
		for node, is := range word {
			if is {
				set = append(set, node)
			}
		}
		if len(set) == n || k.some && len(set) >= majorityOf(n) {
			sets = append(sets, set)
		}
	}
	return sets
}

func TestMachines_DecideEveryVectorOfVotesAsTheProtocolDoes(t *testing.T) {
	for name, k := range kinds {
		for n := 1; n <= mostNodes; n++ {
			t.Run(fmt.Sprintf("%s of %d nodes", name, n), func(t *testing.T) {
				t.Parallel()
				letters := k.votes
				if n > 5 { // the failures differ in their clean-up alone, and so do the kinds of no: 5 nodes show that
					letters = []quorum.Answer{quorum.Yes, quorum.No, quorum.Unknown, quorum.Unsent}
				}
				for _, asked := range k.asked(n) {
					for _, votes := range words(len(asked), letters...) {
						m := k.begin(t, n, asked)
						for i, node := range asked {
							m.play(event{what: aVote, at: k.early, node: node, vote: votes[i]})
						}
						m.end(k.early)
					}
				}
			})
		}
	}
}

// Each vector of votes with a clock that gets late at any step, and a caller who gives up at any step, or never. Each node votes more than
// once.
func TestMachines_NeitherSucceedLateNorReportTwice(t *testing.T) {
	for name, k := range kinds {
		for n := 1; n <= 4; n++ {
			t.Run(fmt.Sprintf("%s of %d nodes", name, n), func(t *testing.T) {
				t.Parallel()
				for _, asked := range k.asked(n) {
					for _, votes := range words(len(asked), k.votes...) {
						for late := range len(asked) + 1 {
							for stop := range len(asked) + 1 {
								k.disturbed(t, n, asked, votes, late, stop)
							}
						}
					}
				}
			})
		}
	}
}

func (k kind) disturbed(t *testing.T, n int, asked []int, votes []quorum.Answer, late, stop int) {
	m, at := k.begin(t, n, asked), k.early
	for step, node := range asked {
		if step == late {
			at = k.late
		}
		if step == stop {
			m.play(event{what: aStop, at: at})
			m.reported()
		}
		for _, vote := range []quorum.Answer{quorum.Pending, votes[step], quorum.Yes, quorum.No, quorum.Unknown} {
			m.play(event{what: aVote, at: at, node: node, vote: vote})
		}
	}
	m.end(k.late)
	if _, is := m.machine.(*quorum.Extend); is && m.outcome != quorum.Done {
		require.Equal(t, deadline, m.lease.Deadline(), "after %+v", m.history)
	}
}

// Every schedule of three nodes: votes in every order, the confirmations of the
// releases in every order among themselves and among the votes still to come, and
// giving up at every moment.
func TestAcquire_ReportsALossOnceInAnyOrderOfVotesAndReleases(t *testing.T) {
	for n := 1; n <= 3; n++ {
		var from func(history []event)
		from = func(history []event) {
			m := beginAcquire(t, n, nil)
			for _, e := range history {
				m.play(e)
			}
			over := true
			branch := func(e event) {
				over = false
				from(append(slices.Clip(history), e))
			}
			o := m.oracle.(*acquireOracle)
			for node := range n {
				if o.given[node] == quorum.Pending {
					for _, vote := range votes {
						branch(event{what: aVote, at: inTime, node: node, vote: vote})
					}
				}
				if slices.Contains(m.released, node) && !o.released[node] {
					branch(event{what: aRelease, node: node})
				}
			}
			if over {
				m.reported()
			}
			m.play(event{what: aStop, at: inTime})
			m.reported()
		}
		from(nil)
	}
}
