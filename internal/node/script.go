package node

import (
	"embed"
	"strings"
)

// Script is a Lua script that servers run.
type Script struct {
	Source string
	// Hash is the SHA-1 of Source in hexadecimal, by which EVALSHA names it. It is written down rather than computed, so
	// that the package works if SHA-1 is forbidden (GODEBUG=fips140=only).
	Hash string
}

//go:embed *.lua
var sources embed.FS

var (
	releaseScript = load("release", "3f27a4307bdcf9cc0b98c304348ff29f06a8a0bd")
	extendScript  = load("extend", "4e6a15d2a846d58a8c14ab81c14031ca3c532712")
	observeScript = load("observe", "c371cfcd3ec2a92e38c6ca062374b608a22cd5eb")
	deleteScript  = load("delete", "d5335c5596ab9293f633aa7daee68bf667faec93")
	healScript    = load("heal", "28fbefd1ca419aac7d4e03692c69115a62cdbc68")

	fencedAcquireScript = load("fenced_acquire", "6dc25fea940bfbe06612650e998c2979055b796e")
	raiseScript         = load("raise", "dd9d9b9707cf3ecbd3e36db8d131c647049f9386")
	fencedReleaseScript = load("fenced_release", "f57c11a76fbbc413c8bf0ceef71f26f36b7a2448")
	fencedExtendScript  = load("fenced_extend", "9628157949d69e6b705d3748b793b71605816a6b")

	joinedScript = load("joined", "05910663f173cefb02c1ae0ab613c44900f50e7d",
		function("fenced_acquire", fencedAcquireScript), function("fenced_release", fencedReleaseScript))
)

// Scripts are all scripts by the names of their files, for tests and measurements.
var Scripts = map[string]*Script{}

// load returns the script in a file of this package, behind what has to stand before it.
func load(name, hash string, before ...string) *Script {
	source, err := sources.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // the file is part of the build
	}
	Scripts[name] = &Script{Source: strings.Join(before, "") + string(source), Hash: hash}
	return Scripts[name]
}

// function turns a script into a function of another. The line in which it names its keys and arguments becomes the list of
// parameters.
func function(name string, script *Script) string {
	_, source, _ := strings.Cut(script.Source, "\nlocal ")
	names, source, _ := strings.Cut(source, " = KEYS")
	_, body, _ := strings.Cut(source, "\n")
	return "local function " + name + "(" + names + ")\n" + body + "end\n"
}
