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
	release = &Script{Source: releaseSource, Hash: "f7c8fa93d68f9c2394ac67395823e88164ae6439"}
	extend  = &Script{Source: extendSource, Hash: "295590ab751805d6fa6a5041e9abda4feddb4c43"}
)

// Release deletes a key that holds a given token.
func Release() *Script { return release }

// Extend sets the TTL of a key that holds a given token.
func Extend() *Script { return extend }
