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
)

var (
	release = &Script{Source: releaseSource, Hash: "f7c8fa93d68f9c2394ac67395823e88164ae6439"}
	extend  = &Script{Source: extendSource, Hash: "175be281ca5fb8ba55f3808a3ee09547028b793c"}
	look    = &Script{Source: lookSource, Hash: "405fc8d5adf93fac682adf57d912137e6c0f6d62"}
	force   = &Script{Source: forceSource, Hash: "fd88a9950189db57c985a2e789e723b560829ff1"}
	heal    = &Script{Source: healSource, Hash: "827dc7a1f06c0f1a266cee059f7a3ff04c079f9a"}

	fencedAcquire = &Script{Source: fencedAcquireSource, Hash: "c9e8845552b1c95d5eea24b3ef62e8dcd99541eb"}
	raise         = &Script{Source: raiseSource, Hash: "719fb14a79fbb5daeec335adfbea85f170e50739"}
	fencedRelease = &Script{Source: fencedReleaseSource, Hash: "174f3ac78c58818d5ff54bdac5d58685442f8ee4"}
	fencedExtend  = &Script{Source: fencedExtendSource, Hash: "5c3a1db5f6f8f49d5b33ca1c7d89d9795ede85fd"}
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
