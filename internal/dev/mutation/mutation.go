// Package mutation lists the rules of the protocol, each with a way to weaken it (mutation testing). What checks the protocol has to
// find each: the simulator (internal/dev/sim/prove), and for some of them the runs on real servers (chaos).
package mutation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	return slices.Concat(
		lockMutations, turnMutations, setMutations, allMutations, shareMutations, slotMutations, refusalMutations, repeatMutations, handoffMutations,
		fencingMutations, guardMutations,
	)
}

// Overlay writes the file with the mutation in it into dir, and returns what go build -overlay takes. Root is the root of the module.
func (m Mutation) Overlay(root, dir string) (path string, err error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return "", err
	}
	if n := bytes.Count(source, []byte(m.Was)); n != 1 {
		return "", fmt.Errorf("%s: %q occurs %d times in %s, not once", m.Name, m.Was, n, m.File)
	}
	return Overlay(root, dir, map[string][]byte{m.File: bytes.Replace(source, []byte(m.Was), []byte(m.Is), 1)})
}

// Sources returns the sources of packages, without their tests, by their names below root.
func Sources(root string, folders ...string) (map[string][]byte, error) {
	sources := map[string][]byte{}
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			if sources[folder+"/"+filepath.Base(path)], err = os.ReadFile(path); err != nil {
				return nil, err
			}
		}
	}
	return sources, nil
}

// Overlay writes sources into dir, which take the place of files of the module, or are new to it, and returns what go build -overlay
// takes. Their names are paths from root, the root of the module, with slashes.
func Overlay(root, dir string, sources map[string][]byte) (path string, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, source := range sources {
		written := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		replace[filepath.Join(root, filepath.FromSlash(name))] = written
		err = errors.Join(err, os.WriteFile(written, source, 0o600))
	}
	paths, encoding := json.Marshal(map[string]any{"Replace": replace})
	path = filepath.Join(dir, "overlay.json")
	return path, errors.Join(err, encoding, os.WriteFile(path, paths, 0o600))
}
