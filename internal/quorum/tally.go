package quorum

// tally counts the votes of N nodes on one command.
type tally struct {
	ballots []ballot
	yes     int
	no      int // Planted among them
	failed  int // Lost, Refused and Unsent
}

type ballot struct {
	vote     Vote
	released bool   // the release that followed has been answered, or has failed
	twin     int    // 1 + the node whose server also answered for this one; 0: none
	server   string // the identity of the server that answered; "" where unknown
}

func newTally(n int) tally { return tally{ballots: make([]ballot, n)} }

// without counts a no for the nodes that cannot hold the key, since its acquire
// never reached them: they are not asked.
func (t *tally) without(reached func(node int) bool) {
	for i := range t.ballots {
		if !reached(i) {
			t.count(i, No, "")
		}
	}
}

// count takes a node's vote, once. A server that has spoken for another node does
// not speak twice: its second vote is counted as refused.
func (t *tally) count(node int, vote Vote, server string) bool {
	b := &t.ballots[node]
	if b.vote != Pending || vote == Pending {
		return false
	}
	if server != "" && (vote == Yes || vote == No || vote == Planted) {
		b.server = server
		for i := range t.ballots {
			if i != node && t.ballots[i].server == server {
				b.twin, vote = 1+i, Refused
				break
			}
		}
	}
	b.vote = vote
	switch vote {
	case Yes:
		t.yes++
	case No, Planted:
		t.no++
	default:
		t.failed++
	}
	return true
}

// Said returns the vote of node i. It is Pending for the nodes that the shell has to
// ask when the machine is new.
func (t *tally) Said(i int) Vote { return t.ballots[i].vote }

// Twin returns the node whose server also answered for node i, which is why the
// vote of node i was refused.
func (t *tally) Twin(i int) (twin int, ok bool) {
	return t.ballots[i].twin - 1, t.ballots[i].twin > 0
}

// Reached says whether the command may have arrived at node i.
func (t *tally) Reached(i int) bool { return t.ballots[i].vote != Unsent }

// reached lists the nodes that the command may have arrived at.
func (t *tally) reached() []int {
	nodes := make([]int, 0, len(t.ballots))
	for i := range t.ballots {
		if t.Reached(i) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

func (t *tally) need() int    { return Majority(len(t.ballots)) }
func (t *tally) pending() int { return len(t.ballots) - t.yes - t.no - t.failed }

// hopeless says that no majority of yes can come any more.
func (t *tally) hopeless() bool { return t.yes+t.pending() < t.need() }

// denied says that so many nodes said no that no majority can ever have said yes.
func (t *tally) denied() bool { return t.no > len(t.ballots)-t.need() }

// outcome is the verdict on an extend or a release, as early as it is certain.
func (t *tally) outcome() Outcome {
	switch {
	case t.yes >= t.need():
		return Done
	case t.denied():
		return Denied
	case t.hopeless() && t.no+t.pending() <= len(t.ballots)-t.need():
		return NoQuorum
	default:
		return Undecided
	}
}
