package fence

import (
	"context"
	_ "embed" // the scripts are files of this package
	"strings"
	"sync/atomic"
)

//go:embed guard.lua
var guardSource string

// Script is a Lua script of your own that runs if the check passes. It is safe for concurrent use, on any servers.
type Script struct {
	source string
	hash   atomic.Pointer[string] // nil until a server has returned it
}

// NewScript puts the check in front of source, a script for EVAL, which runs as it would alone. The error matches
// [ErrInvalid] if source is empty or begins with a shebang (#!lua). Only Run finds out whether it is correct Lua.
func NewScript(source string) (*Script, error) {
	if strings.TrimSpace(source) == "" {
		return nil, invalid("the script is empty")
	}
	if strings.HasPrefix(source, "#!") {
		first, _, _ := strings.Cut(source, "\n")
		return nil, invalid("the script begins with %.64q: a script behind a check has no shebang", first)
	}
	return &Script{source: guarded(source)}, nil
}

// presetScript returns a script of this package, whose hash is known.
func presetScript(source, hash string) *Script {
	s := &Script{source: guarded(source)}
	s.hash.Store(&hash)
	return s
}

// guarded wraps source in a Lua function, which guard.lua calls if the fence passes. The line numbers in the error
// messages of source stay the same.
func guarded(source string) string {
	return "local function write() " + source + "\nend\n" + guardSource
}

// Run checks fence in the guard key and, if it passes, runs the script, in one step. keys are all its keys, without the
// guard key; on Redis Cluster they share its hash tag. args go to the client as they are.
//
// The errors are the same as for the function [Run]. If the script fails, its writes before that stay done, and the
// fence stored.
func (s *Script) Run(
	ctx context.Context, c Doer, guard string, fence uint64, keys []string, args ...any,
) (reply any, err error) {
	if err := checkGuard(guard, fence); err != nil {
		return nil, err
	}
	words := make([]any, 0, 4+len(keys)+len(args))
	words = append(words, nil, len(keys)+1, guard)
	for _, key := range keys {
		words = append(words, key)
	}
	words = append(words, formatFence(fence))
	reply, err = s.eval(ctx, c, append(words, args...))
	if err != nil {
		return nil, wrap(guard, err)
	}
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return nil, unexpected(guard, reply)
	}
	var second any // Redis leaves out a nil at the end of an array
	if len(parts) > 1 {
		second = parts[1]
	}
	switch parts[0] { // see guard.lua
	case int64(1):
		return second, nil
	case int64(0):
		text, _ := textOf(second)
		seen, _ := parseFence(text)
		return nil, &StaleError{Resource: guard, Fence: fence, Seen: seen}
	case int64(-1):
		return nil, guardError(guard, second)
	case int64(-2):
		return nil, expiringError(guard, second)
	}
	return nil, unexpected(guard, reply)
}

// eval puts the hash or the source into words[0] and sends it.
func (s *Script) eval(ctx context.Context, c Doer, words []any) (any, error) {
	hash := s.hash.Load()
	if hash == nil {
		// The server computes the hash, so this works where SHA-1 is forbidden (GODEBUG=fips140=only).
		if reply, err := send(ctx, c, "SCRIPT", "LOAD", s.source); err == nil {
			if text, ok := textOf(reply); ok {
				hash = &text
				s.hash.Store(hash)
			}
		}
	}
	if hash != nil {
		words[0] = *hash
		reply, err := send(ctx, c, "EVALSHA", words...)
		if err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
			return reply, err
		}
	}
	words[0] = s.source
	return send(ctx, c, "EVAL", words...)
}
