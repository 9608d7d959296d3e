package form

import "github.com/quorumlock/quorumlock/internal/wire"

// The .lua files are the sources of the scripts, with comments. Servers get the scripts without comments, because each
// observation, and each first use on a connection, carries the whole text. scripts.go is made of these files, and has
// the hash of each script (see [wire.Script]).
//
//go:generate go run ./strip

// Scripts are all scripts by name, for tests and measurements. As a rule, the name is that of the file.
var Scripts = map[string]*wire.Script{}

// script makes a script and adds it to Scripts.
func script(name, hash, source string) *wire.Script {
	Scripts[name] = &wire.Script{Source: source, Hash: hash}
	return Scripts[name]
}
