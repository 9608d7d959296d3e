// Package lua holds the scripts that lock nodes run.
package lua

import (
	_ "embed" // the scripts are files of this package
	"strings"
)

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
	//go:embed look.lua
	lookSource string
	//go:embed force.lua
	forceSource string
	//go:embed heal.lua
	healSource string

	//go:embed fenced_acquire.lua
	fencedAcquireSource string
	//go:embed raise.lua
	raiseSource string
	//go:embed fenced_release.lua
	fencedReleaseSource string
	//go:embed fenced_extend.lua
	fencedExtendSource string

	//go:embed joined.lua
	joinedSource string
)

var (
	release = &Script{Source: releaseSource, Hash: "d34e443058ba2e09c8170ec724ee2f5c48f519a8"}
	extend  = &Script{Source: extendSource, Hash: "2f8a869572db9563f37ccd25c14f1ed468e06e78"}
	look    = &Script{Source: lookSource, Hash: "2ae90138abc497b37a7b6416ad9d2ebd1b88c0d6"}
	force   = &Script{Source: forceSource, Hash: "8f34d20e1dd14069c39d396a25f1a91b0577eedf"}
	heal    = &Script{Source: healSource, Hash: "f8314a64c607ce31cda4fe5f8ca8fec7fff1497a"}

	fencedAcquire = &Script{Source: fencedAcquireSource, Hash: "f382b97f43c8704f2fce5b50b841d712cefc0c56"}
	raise         = &Script{Source: raiseSource, Hash: "eca2c7c71b7a704234b2ab7cd24055dfe21d4fe9"}
	fencedRelease = &Script{Source: fencedReleaseSource, Hash: "7dfb39d44ea894f145ba400e2ff8ddb738f99771"}
	fencedExtend  = &Script{Source: fencedExtendSource, Hash: "774877787595ca7d5de95d26920ad100bb5e6392"}

	joined = &Script{
		Source: function("fenced_acquire", fencedAcquireSource) + function("fenced_release", fencedReleaseSource) + joinedSource,
		Hash:   "c03fed9f21179d148927490bdfc5703f9ef91bbe",
	}
)

// Release deletes a key that holds a given token.
func Release() *Script { return release }

// Extend sets the TTL of a key that holds a given token, and sets the key anew where
// it is not there.
func Extend() *Script { return extend }

// Look tells what a key holds, and its TTL.
func Look() *Script { return look }

// Force deletes a key, whatever string it holds.
func Force() *Script { return force }

// Heal deletes a key that holds a given value and has no TTL.
func Heal() *Script { return heal }

// FencedAcquire sets a key that is not there to a token and the next number of the name's
// counter.
func FencedAcquire() *Script { return fencedAcquire }

// Raise puts a higher number in the place of the one that FencedAcquire gave.
func Raise() *Script { return raise }

// FencedRelease is Release for a key with a number.
func FencedRelease() *Script { return fencedRelease }

// FencedExtend is Extend for a key with a number.
func FencedExtend() *Script { return fencedExtend }

// Joined carries out several of FencedAcquire and FencedRelease.
func Joined() *Script { return joined }

// function makes a script a function of another. The line in which it names its keys and arguments becomes their list.
func function(name, source string) string {
	_, source, _ = strings.Cut(source, "\nlocal ")
	names, source, _ := strings.Cut(source, " = KEYS")
	_, body, _ := strings.Cut(source, "\n")
	return "local function " + name + "(" + names + ")\n" + body + "end\n"
}
