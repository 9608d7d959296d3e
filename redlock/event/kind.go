package event

// Kind is a group of events that an Observer wants. A [Drop] is of no kind: every Observer is told.
type Kind string

// The kinds of events. Those of Calls, Ends, Nodes and Keys are stable; Rounds, Votes and Turns follow the protocol.
const (
	Calls  Kind = "calls"  // Acquire, Extend and Unlock
	Ends   Kind = "ends"   // End, which a timer of the Locker notices
	Rounds Kind = "rounds" // Round and Raise
	Votes  Kind = "votes"  // Vote: the most events, one for each node and round
	Turns  Kind = "turns"  // Turn
	Nodes  Kind = "nodes"  // NodeUp and NodeDown
	Keys   Kind = "keys"   // Stuck, Heal and ForceUnlock
)
