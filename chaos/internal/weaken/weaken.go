// Package weaken builds this program with one rule of the library weakened. A run of such a program has to find a violation:
// that shows that a run without one means something.
package weaken

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/quorumlock/quorumlock/internal/dev/mutation"
)

// shared are mutations that the simulator finds too.
var shared = []string{
	"late-answer-ignored", "heal-across-connections", "detached-unknown", "majority-off-by-one", "heal-at-once", "last-come-first-served",
	"waiter-forgotten", "loss-unnoticed", "first-unlock-releases", "number-for-two",
	"patience-without-end", "want-never-sent",
}

// scripts is the file that has what servers get of the scripts.
const scripts = "internal/form/scripts.go"

// own are mutations of what the simulator has a model of: scripts, and what surrounds the protocol.
var own = []mutation.Mutation{
	{Name: "stranger's-counter-overwritten", Rule: "an extension leaves somebody's data in the place of a fence counter alone",
		File: scripts, Was: "elseif missing then\nset = nil\nend",
		Is: "else\nset = redis.pcall('SET', counter, fence, 'PX', kept)\nend"},
	{Name: "release-of-any-token", Rule: "a release deletes its own token only",
		File: scripts, Was: "if held == token then\nreturn", Is: "if held ~= '' then\nreturn"},
	{Name: "readers-ignore-the-writer", Rule: "readers get no lock that a writer has",
		File: scripts, Was: "if held == nil then\nreturn refusal\nend\nlocal now = clock()\nlocal most", Is: "local now = clock()\nlocal most"},
	{Name: "first-reader-releases", Rule: "of several readers only the last releases the lock",
		File: scripts, Was: "if need < 0 then\nredis.call('DEL', key)", Is: "if true then\nredis.call('DEL', key)"},
	{Name: "any-slot-counts", Rule: "the nodes of a majority have granted the same slot",
		File: "internal/quorum/slot.go", Was: "a.slots = true", Is: "a.slots = false"},
	{Name: "one-slot-more", Rule: "a node grants as many locks as slots",
		File: scripts, Was: "inside >= math.min(limit, most) then", Is: "inside > math.min(limit, most) then"},
	{Name: "sharers-without-end", Rule: "the keys of a shared lock end with the last of its holders",
		File: scripts, Was: "redis.call('PEXPIREAT', sharers, ends)\n", Is: ""},
	{Name: "no-quarantine", Rule: "a server that has restarted does not vote until all that it may have granted is over",
		File: "internal/wire/guard.go", Was: "if g.why == nil && left == 0 {", Is: "if true {"},
	{Name: "stale-fence-on-redis", Rule: "Redis refuses a write with a fence that is lower than the highest one",
		File: "redlock/fence/guard.lua", Was: "elseif tonumber(seen) > tonumber(fence) then", Is: "elseif false then"},
	{Name: "stale-fence-in-sql", Rule: "a database refuses a write with a fence that is lower than the highest one",
		File: "redlock/fence/table.go", Was: "if err == nil && rows == 0 {", Is: "if err == nil && rows < 0 {"},
}

// Rules returns the mutations that a run has to find.
func Rules() []mutation.Mutation {
	var rules []mutation.Mutation
	for _, name := range shared {
		for _, m := range mutation.All() {
			if m.Name == name {
				rules = append(rules, m)
			}
		}
	}
	return append(rules, own...)
}

// Build builds the program in the folder source, of the module chaos below root, with the rule weakened, and returns the path of the
// program, in dir.
func Build(ctx context.Context, m mutation.Mutation, root, dir string) (program string, err error) {
	dir = filepath.Join(dir, m.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "chaos")
	cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "chaos"), "build", "-overlay", overlay, "-o", program, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w", m.Name, err), errors.New(string(out)))
	}
	return program, nil
}
