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
	releaseScript = load("release", "a92221f781a030d6f459fe396014f05f3048b2a2")
	extendScript  = load("extend", "dbbc136eda79c0e23dd3ac6523c8dc6bb8ab0e14")
	observeScript = load("observe", "c50b8289737303cbe3c451095465d248c2015ea1")
	healScript    = load("heal", "28fbefd1ca419aac7d4e03692c69115a62cdbc68")

	fencedAcquireScript = load("fenced_acquire", "9a2d970466adec2d91eb32c5273758d217d611d5")
	raiseScript         = load("raise", "5f32eedc1fc13a2f3f117192b11e022880d49875")
	fencedReleaseScript = load("fenced_release", "6a1ad590893bb65e82d5dc09ac8ff5b9d8464df6")
	fencedExtendScript  = load("fenced_extend", "aace609f3219f34c445194d4b60a432a81bd13d1")

	joinedScript = load("joined", "b0ed25ec7adf7f0b24edf0dcf4b4b3d3b53e4a41",
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
