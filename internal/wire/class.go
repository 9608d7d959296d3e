package wire

// Class is what a command does to keys.
type Class uint8

// The classes.
const (
	// Observe shows what a key holds, or what a server is.
	Observe Class = iota
	// Vote takes a lock. Its answer null means that the key is held.
	Vote
	// Probe asks whether a Vote would be granted.
	Probe
	// Extend gives a lock a longer TTL, or the key to a server that has lost it.
	Extend
	// CleanUp removes what is ours, so that it may arrive at any time and any number of times. It is sent until it is answered, or for Redeliver
	// after its connection broke.
	CleanUp
	// Remove removes what somebody else has left, once.
	Remove
	// Heal removes a key without a TTL.
	Heal
	// Own changes what a key of ours holds, once, and not whether it is there.
	Own
)

// classes has what follows from the class of a command.
var classes = [...]struct{ votes, creates, changes, needsToken bool }{
	Observe: {},
	Vote:    {votes: true, creates: true, changes: true},
	Probe:   {votes: true},
	Extend:  {creates: true, changes: true, needsToken: true},
	CleanUp: {changes: true, needsToken: true},
	Remove:  {changes: true, needsToken: true},
	Heal:    {changes: true},
	Own:     {},
}

// CleansUp reports whether the command is a CleanUp.
func (c *Command) CleansUp() bool { return c.Class == CleanUp }

// Votes reports whether the command is not sent to a server in quarantine.
func (c *Command) Votes() bool { return classes[c.Class].votes }

// Creates reports whether the command may make the key. It is not sent again then behind a CleanUp of the same life.
func (c *Command) Creates() bool { return classes[c.Class].creates }

// Changes reports that the command has changed the key if it was done, unless the reply says that it is the Same.
func (c *Command) Changes() bool { return classes[c.Class].changes }

// needsToken reports whether data of another program under the key (nodeerr.ErrForeign) is a No. For any other command it is a refusal.
func (c *Command) needsToken() bool { return classes[c.Class].needsToken }
