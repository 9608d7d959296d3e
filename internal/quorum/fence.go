package quorum

// fence finds the fencing token of a round: a number that is higher than the token of every holder before.
//
// Each node has a counter, and every number that it grants is higher than those before. The token is one that a majority has
// granted; or the highest of a majority's, if each node of it that granted a lower one has raised its counter to the
// token while it still held exactly what it had granted. So where two rounds are won they have a node in common whose counter had
// reached the token of the one before it granted to the other, and the other's token is not below what that node granted.
// No clock has a part in this.
type fence struct {
	numbers []uint64 // granted, by node; 0: none
	raises  []raise  // by node
	token   uint64   // 0: not known yet
}

// raise is how the raising of a node's counter stands.
type raise uint8

const (
	notRaised raise = iota
	raising
	hasRaised
	cannotRaise
)

func newFence(n int) *fence {
	return &fence{numbers: make([]uint64, n), raises: make([]raise, n)}
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

// due lists the nodes whose counter is to be raised to the token, each once.
func (f *fence) due() (nodes []int) {
	for i, n := range f.numbers {
		if n > 0 && n < f.token && f.raises[i] == notRaised {
			f.raises[i] = raising
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// raised takes the answer of a node.
func (f *fence) raised(node int, vote Vote) {
	f.raises[node] = cannotRaise
	if vote == Yes {
		f.raises[node] = hasRaised
	}
}

// agrees says whether a node has granted the token or raised its counter to it. One that has granted a higher number
// does not agree.
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

// raising counts the nodes whose counter may still be raised: the answer to that is missing, or they are due.
func (f *fence) raising() (n int) {
	for i, number := range f.numbers {
		if number > 0 && number < f.token && f.raises[i] <= raising {
			n++
		}
	}
	return n
}
