package fence

import (
	_ "embed" // the scripts are files of this package
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

//go:embed guard.lua
var guardSource string

// Script is a Lua script of your own behind a fence. It may be used from any goroutine, on any number of servers.
type Script struct {
	source string
	hash   atomic.Pointer[string] // nil until a server has told it
}

// NewScript returns source, a script for EVAL, with the fence in front of it. It runs as it would alone: KEYS and ARGV are
// those given to Run, and what it returns is what Run returns. An empty source is an error, and one with a shebang (#!lua)
// too. Whether it is correct Lua turns out when it runs.
func NewScript(source string) (*Script, error) {
	if strings.TrimSpace(source) == "" {
		return nil, errors.New("fence: the script is empty")
	}
	if strings.HasPrefix(source, "#!") {
		first, _, _ := strings.Cut(source, "\n")
		return nil, fmt.Errorf("fence: the script begins with %.64q: a script behind a fence has no shebang", first)
	}
	return &Script{source: fenced(source)}, nil
}

// presetScript returns a script of this package, and the hash of it with the fence.
func presetScript(source, hash string) *Script {
	s := &Script{source: fenced(source)}
	s.hash.Store(&hash)
	return s
}

// fenced makes a function of source, in whose error messages line numbers stay what they are.
func fenced(source string) string {
	return "local function write() " + source + "\nend\n" + guardSource
}

// Run runs the script if token is at least the highest one that the guard key has seen, which it is then. It is one step to
// other clients. Keys are all keys that the script touches beside the guard key, on Redis Cluster with the same hash tag;
// args are passed to the client as they are.
//
// The guard key and the errors are those of [Run]. An error reply that the script returns, or a call of it that fails, is
// the client's error, wrapped; what the script did before stays done, and the token raised.
//
// The first Run asks the server for the script's hash (SCRIPT LOAD); those after it send the hash (EVALSHA), and the source
// only where the server does not know it or did not tell.
func (s *Script) Run(c Doer, guard string, token uint64, keys []string, args ...any) (reply any, err error) {
	if err := checkGuard(guard, token); err != nil {
		return nil, err
	}
	words := make([]any, 0, 4+len(keys)+len(args))
	words = append(words, nil, len(keys)+1, guard)
	for _, key := range keys {
		words = append(words, key)
	}
	words = append(words, formatToken(token))
	reply, err = s.eval(c, append(words, args...))
	if err != nil {
		return nil, wrap(guard, err)
	}
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return nil, fmt.Errorf("fence: %q: unexpected reply %v", guard, reply)
	}
	var held any // or the result; a nil at the end of an array is left out
	if len(parts) > 1 {
		held = parts[1]
	}
	switch parts[0] {
	case int64(1):
		return held, nil
	case int64(0):
		text, _ := textOf(held)
		seen, _ := parseToken(text)
		return nil, &StaleError{Resource: guard, Token: token, Seen: seen}
	case int64(-1):
		return nil, guardError(guard, held)
	}
	return nil, fmt.Errorf("fence: %q: unexpected reply %v", guard, reply)
}

// eval fills in the first word, the hash or the source.
func (s *Script) eval(c Doer, words []any) (any, error) {
	hash := s.hash.Load()
	if hash == nil {
		// Asked for, not computed, so that it works where SHA-1 is forbidden (GODEBUG=fips140=only).
		if reply, err := c.Do("SCRIPT", "LOAD", s.source); err == nil {
			if text, ok := textOf(reply); ok {
				hash = &text
				s.hash.Store(hash)
			}
		}
	}
	if hash != nil {
		words[0] = *hash
		reply, err := c.Do("EVALSHA", words...)
		if err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
			return reply, err
		}
	}
	words[0] = s.source
	return c.Do("EVAL", words...)
}
