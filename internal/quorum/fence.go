package quorum

// fence finds the fencing token of a round: a number that is higher than the token of every holder before.
//
// Each node has a counter, and every number that it grants is higher than those before. The token is a number that a
// majority has granted; or it is the highest number of a majority, if each node of that majority that granted a lower
// one has raised its counter to the token while it still held exactly what it had granted. If two rounds are won,
// they have a node in common. Its counter had reached the token of the first round before it granted to the
// second, and the token of the second is not below what that node granted. No clock has a part in this.
type fence struct {
	numbers []uint64     // granted, by node; 0 means none
	raises  []raiseState // by node
	token   uint64       // 0 while it is not known
}

// Raise asks a node to put the fencing token of a round in the place of the lower number that it granted.
type Raise struct {
	Node           int
	Granted, Token uint64
}

// raiseState is how the raising of a node's counter stands.
type raiseState uint8

const (
	notRaised raiseState = iota
	raising
	hasRaised
	cannotRaise
)

func newFence(n int) *fence {
	return &fence{numbers: make([]uint64, n), raises: make([]raiseState, n)}
}

// granted takes the number that a node has granted.
func (f *fence) granted(node int, number uint64, need int) {
	f.numbers[node] = number
	if f.token > 0 {
		return
	}
	same, all, highest := 0, 0, uint64(0)
	for _, n := range f.numbers {
		highest = max(highest, n)
		if n > 0 {
			all++
		}
		if n == number {
			same++
		}
	}
	switch {
	case same >= need:
		f.token = number
	case all >= need:
		f.token = highest
	}
}

// toRaise returns what is to be raised to the token, once for each node.
func (f *fence) toRaise() (due []Raise) {
	for i, n := range f.numbers {
		if n > 0 && n < f.token && f.raises[i] == notRaised {
			f.raises[i] = raising
			due = append(due, Raise{Node: i, Granted: n, Token: f.token})
		}
	}
	return due
}

// raised takes the answer of a node.
func (f *fence) raised(node int, answer Answer) {
	f.raises[node] = cannotRaise
	if answer == Yes {
		f.raises[node] = hasRaised
	}
}

// agrees reports whether a node has granted the token or raised its counter to it. A node that has granted a higher
// number does not agree.
func (f *fence) agrees(node int) bool {
	number := f.numbers[node]
	return number > 0 && (number == f.token || f.raises[node] == hasRaised)
}

// agreed counts the nodes that agree.
func (f *fence) agreed() (n int) {
	for i := range f.numbers {
		if f.agrees(i) {
			n++
		}
	}
	return n
}

// raising counts the nodes whose counter may still be raised: their answer is missing, or they have not been asked yet.
func (f *fence) raising() (n int) {
	for i, number := range f.numbers {
		if number > 0 && number < f.token && f.raises[i] <= raising {
			n++
		}
	}
	return n
}
