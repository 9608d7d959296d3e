package wire

import "slices"

// Proven is the rights that one connection has proven: a user that may take a lock of a kind may also extend and
// release it. No server is asked for a lock that could not be given back. So a command with a Proof is sent as its
// Proof until a command of its kind was granted. The zero value has proven nothing.
type Proven struct{ by []*Script }

// Lacks reports whether a command is still to be sent as its Proof.
func (p *Proven) Lacks(c *Command) bool { return c.Proof != nil && !slices.Contains(p.by, c.Proof) }

// Carrier returns the script that carries out a command; nil if none does.
func (p *Proven) Carrier(c *Command) *Script {
	if p.Lacks(c) {
		return c.Proof
	}
	return c.Script
}

// Granted records that a command was granted, and that the script by has carried it out. A refusal proves nothing. The
// answer that somebody else has the key proves nothing either.
func (p *Proven) Granted(c *Command, by *Script) {
	if by == c.Proof && p.Lacks(c) {
		p.by = append(p.by, by)
	}
}
