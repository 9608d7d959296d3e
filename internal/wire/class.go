package wire

// Class is the effect of a command on keys.
type Class uint8

// The classes.
const (
	// Observe shows the value of a key, or which server it is.
	Observe Class = iota
	// Vote takes a lock. The answer null means that the key exists.
	Vote
	// Probe asks whether a Vote would be granted.
	Probe
	// Extend gives a lock a longer TTL, or gives the key back to a server that has lost it.
	Extend
	// CleanUp removes only data of ours, so it may arrive at any time and any number of times. The node sends it even
	// after its timeout. If the connection breaks before the answer, the node sends it again on the next one, for
	// Redeliver at most.
	CleanUp
	// Remove removes a lock that somebody else has left. It is sent once.
	Remove
	// Heal removes a key without a TTL.
	Heal
	// Own changes data of ours, but not whether a lock is held. It is sent once.
	Own
)

// classes is the properties of the commands of each class.
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

// Votes reports whether the command must not be sent to a server in quarantine.
func (c *Command) Votes() bool { return classes[c.Class].votes }

// Creates reports whether the command may create the key. Such a command is not sent again after a CleanUp of the same
// life.
func (c *Command) Creates() bool { return classes[c.Class].creates }

// Changes reports whether the command changes the key when it is done, unless the reply says that the key is the Same.
func (c *Command) Changes() bool { return classes[c.Class].changes }

// needsToken reports whether data of another program under the key (nodeerr.ErrForeign) counts as a No. For any other
// command it counts as a refusal.
func (c *Command) needsToken() bool { return classes[c.Class].needsToken }
