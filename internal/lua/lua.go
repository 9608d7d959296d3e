// Package lua holds the scripts that lock nodes run.
package lua

import _ "embed" // the scripts are files of this package

// Script is a Lua script and the hash that EVALSHA knows it by.
type Script struct {
	Source string
	// Hash is the SHA-1 of Source in hexadecimal. It is written down rather than
	// computed, so that the package works where SHA-1 is forbidden (GODEBUG=fips140=only).
	Hash string
}

var (
	//go:embed release.lua
	releaseSource string
	//go:embed extend.lua
	extendSource string
)

var (
	release = &Script{Source: releaseSource, Hash: "46079383094ccd98846e4b4feb4d29d513933906"}
	extend  = &Script{Source: extendSource, Hash: "1bfd555c2936bf89848f16747771e9af0a663c52"}
)

// Release deletes a key that holds a given token.
func Release() *Script { return release }

// Extend sets the TTL of a key that holds a given token.
func Extend() *Script { return extend }
