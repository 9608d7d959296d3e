package form

import (
	"embed"
	"strings"

	"github.com/quorumlock/quorumlock/internal/wire"
)

//go:embed *.lua
var sources embed.FS

var (
	releaseScript = load("release", "5cc305874ceb3cc8a2d50c5eb93b7cb7666a965d")
	extendScript  = load("extend", "1bc1896c22b8e83cb7d66c4aeba343de3d5040a0")
	observeScript = load("observe", "187a28f59626837520cc79868342b61fe02e1a8f")
	healScript    = load("heal", "3e95297bda4d54afbe61da510e85865598933d2b")

	fencedAcquireScript = load("fenced_acquire", "7a6459dce49c2b9188bf1bbbe7ff537e014d81f9")
	raiseScript         = load("raise", "8e278d27860f3afd3bcb9baef006d5a78e58713b")
	fencedReleaseScript = load("fenced_release", "9d0ef83e7ce10e0af8310e76333343b3b75cdfd9")
	fencedExtendScript  = load("fenced_extend", "e25763bf9ce4f1c706be480616ebb41e06f73844")

	allAcquireScript       = load("all_acquire", "bb8e3783b00beca5947734a54c69c6981014de94")
	fencedAllAcquireScript = loadAs("fenced_all_acquire", "all_acquire", "446dd5d54c84924a500b8a8c0e30f8fcb56d2518", function("fenced_acquire", fencedAcquireScript))

	shareAcquireScript = load("share_acquire", "821509d4c47f67fc05974dea8b1e88937ff50d4a")
	shareExtendScript  = load("share_extend", "4845b55f73e2f7f755757eb4e78df8e92021a30f")
	shareReleaseScript = load("share_release", "314f129bc36e887a54a45e6103149ba00777ca46")
	shareLookScript    = load("share_look", "a36f5fc66d3b6208a2c81978e478e0d7017b23c9")

	joinedScript = load("joined", "3a1927223ebb84cf3e9f3e11e13ca8191bb1bf1d",
		function("fenced_acquire", fencedAcquireScript), function("fenced_release", fencedReleaseScript))
)

// Scripts are all scripts by name, which is that of their files as a rule, for tests and measurements.
var Scripts = map[string]*wire.Script{}

// load returns the script in a file of this package, behind what has to stand before it.
func load(name, hash string, before ...string) *wire.Script {
	return loadAs(name, name, hash, before...)
}

// loadAs returns it under another name than that of the file.
func loadAs(name, file, hash string, before ...string) *wire.Script {
	source, err := sources.ReadFile(file + ".lua")
	if err != nil {
		panic(err) // the file is part of the build
	}
	Scripts[name] = &wire.Script{Source: strings.Join(before, "") + string(source), Hash: hash}
	return Scripts[name]
}

// function turns a script into a function of another. The line in which it names its keys and arguments becomes the list of
// parameters.
func function(name string, script *wire.Script) string {
	_, source, _ := strings.Cut(script.Source, "\nlocal ")
	names, source, _ := strings.Cut(source, " = KEYS")
	_, body, _ := strings.Cut(source, "\n")
	return "local function " + name + "(" + names + ")\n" + body + "end\n"
}
