package docs_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bracketed matches what looks like a link to a symbol and has stayed text; nodes[i] does not.
var bracketed = regexp.MustCompile(`(?:^|[^\w])(\[\*?[A-Za-z][\w/.]*\])`)

// listed matches a line of an indented block that looks like an item of a list.
var listed = regexp.MustCompile(`^\s*([-*•+]|\d+[.)])\s`)

// strayed returns what pkg.go.dev would not show as it is meant: links that do not resolve, and lists that are code.
func strayed(d *comment.Doc) (found []string) {
	var texts func(all []comment.Text)
	texts = func(all []comment.Text) {
		for _, text := range all {
			switch text := text.(type) {
			case comment.Plain:
				for _, match := range bracketed.FindAllStringSubmatch(string(text), -1) {
					found = append(found, match[1]+" does not resolve")
				}
			case comment.Italic:
			case *comment.Link:
				texts(text.Text)
			case *comment.DocLink:
			}
		}
	}
	var blocks func(all []comment.Block)
	blocks = func(all []comment.Block) {
		for _, block := range all {
			switch block := block.(type) {
			case *comment.Heading:
				texts(block.Text)
			case *comment.Paragraph:
				texts(block.Text)
			case *comment.List:
				for _, item := range block.Items {
					blocks(item.Content)
				}
			case *comment.Code:
				for line := range strings.Lines(block.Text) {
					for _, match := range bracketed.FindAllStringSubmatch(line, -1) {
						found = append(found, match[1]+" is a link in code")
					}
					if listed.MatchString(line) {
						found = append(found, fmt.Sprintf("a list as code: %q", strings.TrimSpace(line)))
					}
				}
			}
		}
	}
	blocks(d.Content)
	for _, link := range d.Links {
		if !link.Used {
			found = append(found, "the link "+link.Text+" is not used")
		}
	}
	return found
}

// load reads the package in a folder of the repository, without its tests.
func load(dir string) (*doc.Package, error) {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, entry := range entries {
		if match, err := build.Default.MatchFile(filepath.Join(root, dir), entry.Name()); err != nil || !match || !isSource(entry.Name()) {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join(root, dir, entry.Name()), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	if len(parsed) == 0 {
		return nil, errors.New("no package")
	}
	return doc.NewFromFiles(fset, parsed, module+"/"+dir)
}

// comments returns the comments of what a package exports, by name: methods as Type.Method, the package itself as "package".
// Something may have two, its own and that of its group.
func comments(p *doc.Package) map[string][]string {
	all := map[string][]string{"package": {p.Doc}}
	values := func(list []*doc.Value) {
		for _, v := range list {
			for _, spec := range v.Decl.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					all[name.Name] = []string{v.Doc, spec.(*ast.ValueSpec).Doc.Text()}
				}
			}
		}
	}
	functions := func(of string, list []*doc.Func) {
		for _, f := range list {
			all[of+f.Name] = []string{f.Doc}
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions("", p.Funcs)
	for _, t := range p.Types {
		all[t.Name] = []string{t.Doc}
		values(t.Consts)
		values(t.Vars)
		functions("", t.Funcs)
		functions(t.Name+".", t.Methods)
	}
	return all
}

// published returns the folders of the packages whose comments are for people outside.
func published(t *testing.T) (dirs []string) {
	t.Helper()
	for _, name := range files(t, isSource) {
		private := slices.ContainsFunc(strings.Split(name, "/"), func(folder string) bool {
			return slices.Contains([]string{"internal", "bench", "integration", "tools", "cmd", "examples"}, folder)
		})
		if !private && !slices.Contains(dirs, path.Dir(name)) {
			dirs = append(dirs, path.Dir(name))
		}
	}
	require.Subset(t, dirs, []string{"redlock", "redlock/fence", "pool", "clock", "adapters/goredis"})
	return dirs
}

func TestPackages_AreShownAsMeant(t *testing.T) {
	t.Parallel()
	for _, dir := range published(t) {
		p, err := load(dir)
		require.NoError(t, err, dir)
		require.NotEmpty(t, p.Doc, dir)
		for name, texts := range comments(p) {
			for _, text := range texts {
				assert.Emptyf(t, strayed(p.Parser().Parse(text)), "%s: %s", dir, name)
			}
		}
	}
}

func TestStrayed_FindsLinksAndListsThatAreNone(t *testing.T) {
	t.Parallel()
	known := &comment.Parser{LookupSym: func(_, name string) bool { return name == "Known" }}
	require.Empty(t, strayed(known.Parse("See [Known].\n\nItems:\n  - one\n  - two\n\nCode:\n\n\tx := a - b\n")))
	require.Equal(t, []string{"[Unknown] does not resolve"}, strayed(known.Parse("See [Known] and [Unknown].\n")))
	require.Equal(t, []string{"[Known] is a link in code"}, strayed(known.Parse("Table:\n\n\tan error  of [Known]\n")))
	require.Equal(t, []string{`a list as code: "2. b"`}, strayed(known.Parse("Steps:\n\n\tfirst\n\t2. b\n")))
}
