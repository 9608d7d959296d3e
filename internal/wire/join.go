package wire

// Joiner has one call of a script carry out several commands.
type Joiner struct {
	Script *Script // returns an array of the reply to each, or its error
	// Words appends what follows the script: how many keys there are, the keys, and the arguments.
	Words func(words []string, joined []*Command) []string
}

// Joins reports whether one call may carry out next behind the command and others. Nothing that takes a lock is joined behind a release
// that leads: Redis skips the out-of-memory check after the first write of a script.
func (c *Command) Joins(next *Command) bool {
	return c.Join != nil && c.Join == next.Join && (c.Votes || !next.Votes)
}
