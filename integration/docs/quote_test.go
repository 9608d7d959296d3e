package docs_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// source is a Go file that the tests compile and run.
type source struct {
	path   string
	lines  []string
	inside map[int]bool      // the lines, from 0, that begin inside of a comment or a string
	unrun  map[string][2]int // functions that are compiled and not run: examples without output, with their first and last line
}

// sources returns the tests of all modules, and the programs in examples/, which have tests. What the build constraints
// exclude on Linux is left out.
func sources(t *testing.T) (all []source) {
	t.Helper()
	linux := build.Default
	linux.GOOS = "linux"
	race := linux
	race.BuildTags = []string{"race"}
	for _, name := range files(t, func(name string) bool {
		return strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "examples/") && strings.HasSuffix(name, ".go")
	}) {
		dir, file := filepath.Join(root, path.Dir(name)), path.Base(name)
		plain, err := linux.MatchFile(dir, file)
		require.NoError(t, err)
		detecting, err := race.MatchFile(dir, file)
		require.NoError(t, err)
		if plain || detecting {
			content, err := os.ReadFile(filepath.Join(dir, file))
			require.NoError(t, err)
			s, err := read(name, content)
			require.NoError(t, err)
			all = append(all, s)
		}
	}
	require.Greater(t, len(all), 100)
	return all
}

func read(name string, content []byte) (source, error) {
	s := source{name, strings.Split(string(content), "\n"), map[int]bool{}, map[string][2]int{}}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, content, parser.ParseComments)
	if err != nil {
		return s, err
	}
	var tokens scanner.Scanner
	file := fset.AddFile(name, -1, len(content))
	tokens.Init(file, content, nil, scanner.ScanComments)
	for pos, tok, literal := tokens.Scan(); tok != token.EOF; pos, tok, literal = tokens.Scan() {
		if tok == token.COMMENT || tok == token.STRING {
			for i := range strings.Count(literal, "\n") {
				s.inside[file.Line(pos)+i] = true
			}
		}
	}
	run := map[string]bool{}
	for _, example := range doc.Examples(parsed) {
		run["Example"+example.Name] = example.Output != "" || example.EmptyOutput
	}
	for _, declaration := range parsed.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") && !run[f.Name.Name] {
			s.unrun[f.Name.Name] = [2]int{fset.Position(f.Pos()).Line - 1, fset.Position(f.End()).Line - 1}
		}
	}
	return s, nil
}

// elided is a line of code that stands for an if err != nil with its body.
const elided = "..."

// quoted returns an error if no source has the lines of code, up to common indentation. It names the first line that is not
// where the others are found.
func quoted(code string, all []source) error {
	lines := dedented(strings.Split(strings.TrimRight(code, "\n"), "\n"))
	best, where := -1, ""
	for _, s := range all {
		for begin := range s.lines {
			if s.inside[begin] {
				continue
			}
			n, length := same(lines, s.lines[begin:])
			if n == len(lines) {
				for name, span := range s.unrun {
					if span[0] <= begin && begin <= span[1] {
						return fmt.Errorf("quoted from %s of %s, which has no // Output: and is not run", name, s.path)
					}
				}
				return nil
			}
			if n > best {
				best, where = n, fmt.Sprintf("%s:%d", s.path, begin+1+length)
			}
		}
	}
	if best == 0 {
		return fmt.Errorf("line 1 of the block is in no test and no example: %q", lines[0])
	}
	return fmt.Errorf("line %d of the block is in no test and no example where the lines before it are (%s): %q", best+1, where, lines[best])
}

// dedented returns lines without the tabs that all of them begin with.
func dedented(lines []string) []string {
	common := -1
	for _, line := range lines {
		if tabs := len(line) - len(strings.TrimLeft(line, "\t")); line != "" && (common < 0 || tabs < common) {
			common = tabs
		}
	}
	lines = slices.Clone(lines)
	for i, line := range lines {
		if line != "" {
			lines[i] = line[common:]
		}
	}
	return lines
}

// same returns how many lines of code the text begins with, up to the indentation that the text adds to the first one, and the
// length of that beginning.
func same(code, text []string) (n, length int) {
	if !strings.HasSuffix(text[0], code[0]) {
		return 0, 0
	}
	indent := strings.TrimSuffix(text[0], code[0])
	if strings.Trim(indent, "\t") != "" {
		return 0, 0
	}
	for i, line := range code {
		if tabs, is := strings.CutSuffix(line, elided); is && strings.Trim(tabs, "\t") == "" {
			body := slices.Index(text[length:], indent+tabs+"}")
			if body < 0 || text[length] != indent+tabs+"if err != nil {" {
				return i, length
			}
			length += body + 1
			continue
		}
		if length >= len(text) || line == "" && text[length] != "" || line != "" && text[length] != indent+line {
			return i, length
		}
		length++
	}
	return len(code), length
}

func TestBlocks_OfGoAreQuotedFromCodeThatIsRun(t *testing.T) {
	t.Parallel()
	all := sources(t)
	count := 0
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.tag == "go" {
				assert.NoErrorf(t, quoted(b.code, all), "%s:%d", d.path, b.line)
				count++
			}
		}
	}
	require.NotZero(t, count)
}

func TestQuoted_NamesTheFirstLineThatDiffers(t *testing.T) {
	t.Parallel()
	s, err := read("a_test.go", []byte(`package a

func ExampleA() {
	if a {
		b()

		c()
	}
	g, err := h()
	if err != nil {
		log.Fatal(err)
	}
	g.Close()
	// Output:
}

func ExampleB() {
	d()
}

/*
	f()
*/
`))
	require.NoError(t, err)
	all := []source{s}
	require.NoError(t, quoted("b()\n\nc()\n", all))
	require.NoError(t, quoted("if a {\n\tb()\n\n\tc()\n}\n", all))
	require.NoError(t, quoted("\t\tc()\n\t}\n", all))
	require.NoError(t, quoted("\tc()\n}\n", all))
	require.NoError(t, quoted("g, err := h()\n...\ng.Close()\n", all))
	require.EqualError(t, quoted("g, err := h()\n...\ng.Open()\n", all),
		`line 3 of the block is in no test and no example where the lines before it are (a_test.go:13): "g.Open()"`)
	require.EqualError(t, quoted("b()\n\n...\n", all),
		`line 3 of the block is in no test and no example where the lines before it are (a_test.go:7): "..."`, "no error")
	require.EqualError(t, quoted("if a {\n\tb()\n\tc()\n}\n", all),
		`line 3 of the block is in no test and no example where the lines before it are (a_test.go:6): "\tc()"`)
	require.EqualError(t, quoted("e()\nb()\n", all), `line 1 of the block is in no test and no example: "e()"`)
	require.EqualError(t, quoted("f()\n", all), `line 1 of the block is in no test and no example: "f()"`, "in a comment")
	require.EqualError(t, quoted("d()\n", all), `quoted from ExampleB of a_test.go, which has no // Output: and is not run`)
}
