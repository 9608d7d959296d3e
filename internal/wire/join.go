package wire

// Joiner has one call of a script carry out several commands.
type Joiner struct {
	Script *Script // returns an array of the reply to each, or its error
	// Fits reports whether a command may follow others, of which first is the first.
	Fits func(first, next *Command) bool
	// Words appends what follows the script: how many keys there are, the keys, and the arguments.
	Words func(words []string, joined []*Command) []string
}

// Joins reports whether one call may carry out next behind the command and others.
func (c *Command) Joins(next *Command) bool {
	return c.Join != nil && c.Join == next.Join && c.Join.Fits(c, next)
}
