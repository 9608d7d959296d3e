package wire

import "slices"

// Proven is what one connection has proven: that who may take a lock of a kind may extend and release it, too. No server is asked for a lock
// that could not be given back. So a command that has a Proof goes by that until one of its kind was granted. The zero value has proven nothing.
type Proven struct{ by []*Script }

// Lacks reports whether a command goes by its Proof.
func (p *Proven) Lacks(c *Command) bool { return c.Proof != nil && !slices.Contains(p.by, c.Proof) }

// Carrier returns the script that carries out a command; nil if none does.
func (p *Proven) Carrier(c *Command) *Script {
	if p.Lacks(c) {
		return c.Proof
	}
	return c.Script
}

// Granted records that a command was granted which a script has carried out. A refusal proves nothing, nor does it that somebody else has the key.
func (p *Proven) Granted(c *Command, by *Script) {
	if by == c.Proof && p.Lacks(c) {
		p.by = append(p.by, by)
	}
}
