// Command layers puts the files of each package into an order in which as few uses as possible run upward, so that a reader who begins
// at the top meets what he needs further down. It prints the order, how many files use another one and how many of these uses run
// upward, and which they are.
//
//	go run ./internal/dev/layers ./redlock ./internal/lock
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "layers:", err)
		os.Exit(1)
	}
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

func run(w io.Writer, patterns []string) error {
	out, err := exec.Command("go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, patterns...)...).Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	exports, packages := map[string]string{}, []listed(nil)
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			packages = append(packages, p)
		}
	}
	for _, p := range packages {
		uses, err := usesOf(p, exports)
		if err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		report(w, p, uses)
	}
	return nil
}

// uses[from][to] are names that a file uses of another one.
type uses map[string]map[string][]string

func usesOf(p listed, exports map[string]string) (uses, error) {
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	checked, err := config.Check(p.ImportPath, files, parsed, &info)
	if err != nil {
		return nil, err
	}
	fileOf := func(pos token.Pos) string { return filepath.Base(files.Position(pos).Filename) }
	found := uses{}
	for _, name := range p.GoFiles {
		found[name] = map[string][]string{}
	}
	for ident, object := range info.Uses {
		from, to := fileOf(ident.Pos()), fileOf(object.Pos())
		if object.Pkg() == checked && from != to && !slices.Contains(found[from][to], object.Name()) {
			found[from][to] = append(found[from][to], object.Name())
		}
	}
	return found, nil
}

// upward counts the pairs of files of which the lower one uses the upper one.
func (u uses) upward(order []string) (n int) {
	for i, from := range order {
		for _, to := range order[:i] {
			if len(u[from][to]) > 0 {
				n++
			}
		}
	}
	return n
}

// order returns an order of the files with few upward uses: the best of many that are improved as long as moving one file helps.
func (u uses) order(names []string) (best []string) {
	r := rand.New(rand.NewPCG(1, 2)) // the same each time
	for range 200 {
		order := slices.Clone(names)
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for improved := true; improved; {
			improved = false
			for i := range order {
				for j := range order {
					moved := slices.Insert(slices.Delete(slices.Clone(order), i, i+1), j, order[i])
					if u.upward(moved) < u.upward(order) {
						order, improved = moved, true
					}
				}
			}
		}
		if best == nil || u.upward(order) < u.upward(best) {
			best = order
		}
	}
	return best
}

func report(w io.Writer, p listed, u uses) {
	order, all := u.order(p.GoFiles), 0
	for _, to := range u {
		all += len(to)
	}
	fmt.Fprintf(w, "%s: %d of %d uses between files run upward\n  %s\n", p.ImportPath, u.upward(order), all, strings.Join(order, " "))
	for i, from := range order {
		for _, to := range order[:i] {
			if names := u[from][to]; len(names) > 0 {
				slices.Sort(names)
				fmt.Fprintf(w, "  %s uses %s: %s\n", from, to, strings.Join(names, ", "))
			}
		}
	}
}
