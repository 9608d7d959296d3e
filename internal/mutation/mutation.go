// Package mutation lists the rules of the protocol, each with a way to weaken it (mutation testing). What checks the protocol has to
// find each: the simulator (internal/sim/prove), and for some of them the runs on real servers (chaos).
package mutation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Mutation weakens a rule: it rewrites one place of the source, in a build of its own.
type Mutation struct {
	Name string
	Rule string // what the rule says that is broken
	File string // path from the root of the module, with slashes
	Was  string // occurs once in it
	Is   string
}

// All returns the mutations that the simulator has to find.
func All() []Mutation {
	return slices.Concat(lockMutations, handoffMutations, fencingMutations, guardMutations)
}

// Overlay writes the file with the mutation in it into dir, and returns what go build -overlay takes. Root is the root of the module.
func (m Mutation) Overlay(root, dir string) (path string, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return "", err
	}
	original := filepath.Join(root, filepath.FromSlash(m.File))
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(source, []byte(m.Was)); n != 1 {
		return "", fmt.Errorf("%s: %q occurs %d times in %s, not once", m.Name, m.Was, n, m.File)
	}
	mutated, path := filepath.Join(dir, "mutated"+filepath.Ext(m.File)), filepath.Join(dir, "overlay.json")
	paths, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	return path, errors.Join(
		err,
		os.WriteFile(mutated, bytes.Replace(source, []byte(m.Was), []byte(m.Is), 1), 0o600),
		os.WriteFile(path, paths, 0o600),
	)
}
