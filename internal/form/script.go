package form

import "github.com/quorumlock/quorumlock/internal/wire"

// The .lua files are the sources of the scripts, with comments. Servers get them without, as each observation and each first use on a
// connection carries the whole text. What stands in scripts.go is made of them, and its hashes are written down (see [wire.Script]).
//
//go:generate go run ./strip

// Scripts are all scripts by name, which is that of their files as a rule, for tests and measurements.
var Scripts = map[string]*wire.Script{}

// script makes a script.
func script(name, hash, source string) *wire.Script {
	Scripts[name] = &wire.Script{Source: source, Hash: hash}
	return Scripts[name]
}
