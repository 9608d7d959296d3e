package quorum

// tally is the count of the votes of N nodes on one command. Each round has one, so it is kept small.
type tally struct {
	ballots []ballot
	room    [5]ballot // the room for the ballots of up to five nodes
	yes     int32
	no      int32 // how many voted No or Recreated
	over    bool  // the outcome has been reported
}

type ballot struct {
	answer    Answer
	released  bool   // the release or observation that followed has been answered, or has failed
	raised    Answer // the answer to a [Raise]
	duplicate uint16 // 1 + the node for which the same server has voted, or 0 if there is none
	number    uint64 // the number that came with a yes, or 0 if none came
	server    string // the identity of the server that answered; "" if unknown
}

// begin makes a ballot for each of n nodes. The tally must not be copied from then on.
func (t *tally) begin(n int) {
	*t = tally{}
	if n > len(t.room) {
		t.ballots = make([]ballot, n)
	} else {
		t.ballots = t.room[:n]
	}
}

// count records a node's vote, once. A server votes for one node only: its vote for another node counts as Refused.
// count reports whether the vote is new.
func (t *tally) count(node int, answer Answer, server string) bool {
	b := &t.ballots[node]
	if b.answer != Pending || answer == Pending {
		return false
	}
	if server != "" && (answer == Yes || answer == No || answer == Recreated) {
		b.server = server
		for i := range t.ballots {
			if i != node && t.ballots[i].server == server {
				b.duplicate, answer = uint16(1+i), Refused
				break
			}
		}
	}
	b.answer = answer
	switch answer {
	case Yes:
		t.yes++
	case No, Recreated:
		t.no++
	}
	return true
}

// conclude records the outcome, if there is one now, and returns the Actions that report it.
func (t *tally) conclude(outcome Outcome) Actions {
	t.over = outcome != Undecided
	return Actions{Outcome: outcome}
}

// Stop ends the wait of the caller. Commands that have been sent go on.
func (t *tally) Stop(Clock) Actions {
	if t.over {
		return Actions{}
	}
	return t.conclude(NoQuorum)
}

// Answer returns the vote of node i. When a round begins it is Pending for the nodes that the shell has to ask.
func (t *tally) Answer(i int) Answer { return t.ballots[i].answer }

// Duplicate returns the node for which the server of node i has voted, if that is why the vote of node i was refused.
func (t *tally) Duplicate(i int) (of int, ok bool) {
	return int(t.ballots[i].duplicate) - 1, t.ballots[i].duplicate > 0
}

// Nodes returns how many nodes vote.
func (t *tally) Nodes() int { return len(t.ballots) }

// nodes returns the nodes for which the function is returns true.
func (t *tally) nodes(is func(node int) bool) []int {
	nodes := make([]int, 0, len(t.ballots))
	for i := range t.ballots {
		if is(i) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// same returns how many nodes said yes with a number.
func (t *tally) same(number uint64) (count int) {
	for i := range t.ballots {
		if b := &t.ballots[i]; b.answer == Yes && b.number == number {
			count++
		}
	}
	return count
}

// Pending returns how many nodes have not answered.
func (t *tally) Pending() (count int) {
	for i := range t.ballots {
		if t.ballots[i].answer == Pending {
			count++
		}
	}
	return count
}

func (t *tally) need() int { return Majority(len(t.ballots)) }

// majority reports whether a majority has said yes.
func (t *tally) majority() bool { return int(t.yes) >= t.need() }

// hopeless reports whether no majority of yes is possible.
func (t *tally) hopeless() bool { return int(t.yes)+t.Pending() < t.need() }

// outcome returns the outcome of a round other than an acquire, as early as it is certain. It is Denied if the nodes
// that did not say no are no majority. Then no majority can ever have said yes.
func (t *tally) outcome() Outcome {
	minority := len(t.ballots) - t.need()
	switch {
	case t.majority():
		return Done
	case int(t.no) > minority:
		return Denied
	case t.hopeless() && int(t.no)+t.Pending() <= minority:
		return NoQuorum
	default:
		return Undecided
	}
}
