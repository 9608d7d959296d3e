// Package api_test keeps the exported API of the released modules, so that nobody changes it by accident. vX.Y.txt has
// the names that came with version X.Y: they stay. next.txt has those that no version has yet. Package
// redlock/event/protocol is in next.txt for ever: it changes with the protocol.
package api_test

import (
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	update = flag.Bool("update", false, "write next.txt")
	freeze = flag.String("freeze", "", "a version, such as v0.1: its names are written to a file, and stay from now on")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// changing is the package whose names are never frozen.
const changing = "pkg redlock/event/protocol, "

// frozen returns the names of all versions.
func frozen(t *testing.T) (lines []string) {
	files, err := filepath.Glob("v*.txt")
	require.NoError(t, err)
	for _, file := range files {
		lines = append(lines, read(t, file)...)
	}
	return lines
}

func read(t *testing.T, file string) []string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func write(t *testing.T, file string, lines []string) {
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

func TestAPI_IsThatOfTheFiles(t *testing.T) {
	now := list(t, "../../..", "../../../otelredlock", "../../../promredlock")
	if *freeze != "" {
		came := slices.DeleteFunc(slices.Clone(now), func(line string) bool {
			return strings.HasPrefix(line, changing) || slices.Contains(frozen(t), line)
		})
		write(t, *freeze+".txt", came)
	}
	stays := frozen(t)
	if *update || *freeze != "" {
		write(t, "next.txt", without(now, stays))
	}
	for _, fault := range faults(stays, read(t, "next.txt"), now) {
		t.Error(fault)
	}
}

// without returns the lines that are not among others.
func without(lines, others []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(others, line) })
}

// faults returns why an API is not that of the files.
func faults(stays, next, now []string) (all []string) {
	if broken := without(stays, now); len(broken) > 0 {
		all = append(all, "a version has these names: they stay, and a program that uses them must build and run:\n"+strings.Join(broken, "\n"))
	}
	if d := diff(next, without(now, stays)); len(d) > 0 {
		all = append(all, "the exported API is not that of internal/dev/api/next.txt:\n"+strings.Join(d, "\n")+
			"\nIf that is meant: make api, and a line in CHANGELOG.md.")
	}
	return all
}

func TestFaults_ANameOfAVersionStaysAndANewOneIsListed(t *testing.T) {
	stays, next := []string{"pkg p, func A()", "pkg p, func B()"}, []string{"pkg p, func C()"}
	require.Empty(t, faults(stays, next, []string{"pkg p, func A()", "pkg p, func B()", "pkg p, func C()"}))
	changed := faults(stays, next, []string{"pkg p, func A(n int)", "pkg p, func B()", "pkg p, func C()"})
	require.Len(t, changed, 2)
	require.Contains(t, changed[0], "\npkg p, func A()")
	require.NotContains(t, changed[0], "func B()")
	require.Contains(t, changed[1], "+ pkg p, func A(n int)")
	require.Len(t, faults(stays, next, []string{"pkg p, func A()", "pkg p, func B()", "pkg p, func C()", "pkg p, func D()"}), 1)
	require.Len(t, faults(stays, next, stays), 1)
}

// diff returns the lines that only one of the lists has, with - if that is before.
func diff(before, now []string) (lines []string) {
	for _, line := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(before, now)))) {
		switch {
		case !slices.Contains(now, line):
			lines = append(lines, "- "+line)
		case !slices.Contains(before, line):
			lines = append(lines, "+ "+line)
		}
	}
	return lines
}

const publicCode = `package p

import "github.com/quorumlock/quorumlock/p/internal/h"

const K Kind = 3
type Kind uint8
var Err, err error
type Alias = h.Aliased
type Box[T any] struct { *base; Value T; hidden int }
type base struct { Deep string; h.Shadowed }
func (base) Do(n int) error { return nil }
func (*Box[T]) Set(v T) (_ near) { return }
type near bool
func (Box[T]) unexported() {}
type Sealed interface { Is(h.Bound[Kind]) bool; apply(*base) }
type Number interface { ~int | ~float64 }
func New[N Number](all ...N) *Box[N] { return nil }
func Opaque() h.Opaque { return 0 }
func unexported(int) {}
`

const hiddenCode = `package h

type Aliased struct { Field int; inner string }
func (*Aliased) Method() {}
type Shadowed struct { Value bool; Raised bool }
type Bound[T any] func(T) *Far
type Far struct { From, hidden int }
type Opaque = renamed
type renamed int
type Unreached struct { Field int }
`

func TestList_HasWhatAProgramCanReachAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "internal/h"), 0o700))
	write := func(public, hidden string) {
		for name, text := range map[string]string{"go.mod": "module " + ours + "p\ngo 1.25\n", "p.go": public, "internal/h/h.go": hidden} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	write(publicCode, hiddenCode)
	before := list(t, dir)
	assert.Equal(t, strings.Split(strings.TrimSpace(`
pkg p, const K Kind = 3
pkg p, func New[N Number](all ...N) *Box[N]
pkg p, func Opaque() p/internal/h.Opaque
pkg p, method (*Box[T any]) Set(v T) (_ near)
pkg p, method (Box[T any]) Do(n int) error
pkg p, method (Sealed) Is(p/internal/h.Bound[Kind]) bool
pkg p, type Alias = p/internal/h.Aliased
pkg p, type Box[T any] struct
pkg p, type Box[T any] struct, Deep string
pkg p, type Box[T any] struct, Raised bool
pkg p, type Box[T any] struct, Shadowed p/internal/h.Shadowed
pkg p, type Box[T any] struct, Value T
pkg p, type Kind uint8
pkg p, type Number interface
pkg p, type Number interface, as interface{~int | ~float64}
pkg p, type Sealed interface
pkg p, type Sealed interface, sealed
pkg p, type near bool
pkg p, var Err error
pkg p/internal/h, method (*Aliased) Method()
pkg p/internal/h, type Aliased struct
pkg p/internal/h, type Aliased struct, Field int
pkg p/internal/h, type Bound[T any] func(T) *Far
pkg p/internal/h, type Far struct
pkg p/internal/h, type Far struct, From int
pkg p/internal/h, type Opaque = renamed
pkg p/internal/h, type Shadowed struct
pkg p/internal/h, type Shadowed struct, Raised bool
pkg p/internal/h, type Shadowed struct, Value bool
pkg p/internal/h, type renamed int
`), "\n"), before)

	write(strings.NewReplacer("New[N Number](all ...N)", "New[N Number](all []N)", "unexported(int)", "unexported(string)", "hidden int", "hidden string").Replace(publicCode),
		strings.NewReplacer("inner string", "inner bool", "Aliased struct { Field int", "Aliased struct { Field uint", "Unreached", "Elsewhere").Replace(hiddenCode))
	assert.Equal(t, []string{
		"- pkg p, func New[N Number](all ...N) *Box[N]",
		"+ pkg p, func New[N Number](all []N) *Box[N]",
		"- pkg p/internal/h, type Aliased struct, Field int",
		"+ pkg p/internal/h, type Aliased struct, Field uint",
	}, diff(before, list(t, dir)))
}

const ours = "github.com/quorumlock/quorumlock/"

var ourNames = regexp.MustCompile(ours + `([\w/]+)\.(\w+)`)

// lister collects the lines of a module.
type lister struct {
	*testing.T
	public []string          // the packages that a program can import
	files  map[string]string // what the compiler has written for the importers of a package: all that they can reach
	types.Importer
	listed map[types.Object]bool
	lines  map[string]bool
}

// list returns a line for each exported name of the packages of modules, and for each member of a type that a program can reach.
func list(t *testing.T, modules ...string) []string {
	t.Helper()
	lines, public := map[string]bool{}, []string{}
	for _, dir := range modules {
		l := lister{T: t, files: map[string]string{}, listed: map[types.Object]bool{}, lines: lines}
		l.Importer = importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(l.files[path]) })
		packages := slices.DeleteFunc(l.golist(dir, `{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}`, "./..."),
			func(path string) bool { return strings.Contains(path+"/", "/internal/") })
		public = append(public, packages...)
		l.public = public
		for _, line := range l.golist(dir, "{{.ImportPath}}={{.Export}}", append([]string{"-export", "-deps"}, packages...)...) {
			path, file, _ := strings.Cut(line, "=")
			l.files[path] = file
		}
		for _, path := range packages {
			for _, name := range l.scope(path).Names() {
				if token.IsExported(name) {
					l.object(l.scope(path).Lookup(name))
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(lines))
}

// golist returns the lines of go list. Built as the tests are, most packages are compiled already.
func (l *lister) golist(dir, format string, args ...string) []string {
	cmd := exec.CommandContext(l.Context(), "go", append([]string{"list", fmt.Sprintf("-race=%t", raceDetector), "-f", format}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	require.NoError(l, err, cmd)
	return strings.Fields(string(out))
}

func (l *lister) scope(path string) *types.Scope {
	pkg, err := l.Import(path)
	require.NoError(l, err)
	return pkg.Scope()
}

// show returns a type as it is written in its package. It lists what the text names that a program cannot name, but can use.
func (l *lister) show(in *types.Package, t types.Type) string {
	for _, name := range ourNames.FindAllStringSubmatch(types.TypeString(t, nil), -1) {
		if path := ours + name[1]; !slices.Contains(l.public, path) || !token.IsExported(name[2]) {
			l.object(l.scope(path).Lookup(name[2]))
		}
	}
	return strings.ReplaceAll(types.TypeString(t, types.RelativeTo(in)), ours, "")
}

// object lists a declaration.
func (l *lister) object(o types.Object) {
	if l.listed[o] {
		return
	}
	l.listed[o] = true
	show := func(t types.Type) string { return l.show(o.Pkg(), t) }
	add := func(format string, args ...any) {
		l.lines["pkg "+strings.TrimPrefix(o.Pkg().Path(), ours)+", "+fmt.Sprintf(format, args...)] = true
	}
	name := show(o.Type())
	switch o := o.(type) {
	case *types.Const:
		add("const %s %s = %s", o.Name(), name, o.Val().ExactString())
		return
	case *types.Var:
		add("var %s %s", o.Name(), name)
		return
	case *types.Func:
		add("func %s%s", o.Name(), strings.TrimPrefix(name, "func"))
		return
	}
	if alias, ok := o.Type().(*types.Alias); ok {
		add("type %s = %s", name, show(alias.Rhs()))
		return
	}
	ofValue, methods := types.NewMethodSet(o.Type()), types.NewMethodSet(types.NewPointer(o.Type()))
	switch t := o.Type().Underlying().(type) {
	case *types.Struct:
		add("type %s struct", name)
		for _, f := range fields(t, map[types.Type]bool{}) {
			// It may be hidden by a field or method that is less deep.
			if found, _, _ := types.LookupFieldOrMethod(o.Type(), true, f.Pkg(), f.Name()); found == f && f.Exported() {
				add("type %s struct, %s %s", name, f.Name(), show(f.Type()))
			}
		}
	case *types.Interface:
		methods = ofValue
		add("type %s interface", name)
		if !t.IsMethodSet() {
			add("type %s interface, as %s", name, show(t))
		}
	default:
		add("type %s %s", name, show(t))
	}
	for method := range methods.Methods() {
		m, receiver := method.Obj(), name
		if ofValue.Lookup(m.Pkg(), m.Name()) == nil {
			receiver = "*" + name
		}
		if m.Exported() {
			add("method (%s) %s%s", receiver, m.Name(), strings.TrimPrefix(show(method.Type()), "func"))
		} else if methods == ofValue {
			add("type %s interface, sealed", name)
		}
	}
}

// fields returns the fields of a struct, and those of the structs that are embedded in it.
func fields(s *types.Struct, seen map[types.Type]bool) (all []*types.Var) {
	for f := range s.Fields() {
		all = append(all, f)
		t := types.Unalias(f.Type())
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		if inner, ok := t.Underlying().(*types.Struct); ok && f.Embedded() && !seen[t] {
			seen[t] = true
			all = append(all, fields(inner, seen)...)
		}
	}
	return all
}
