package docs_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// root is the repository.
const root = "../.."

// document is what the tests look at in a Markdown file.
type document struct {
	path    string // in the repository, with slashes
	anchors []string
	links   []link
	blocks  []block
}

type link struct {
	line int
	url  string
}

// block is a block of code.
type block struct {
	line   int    // of its first line of code
	fenced bool   // and not indented
	tag    string // the word behind the fence
	code   string
	notRun string // why it is not run; empty if it is
}

// files returns the paths of the files of the repository, with slashes, for which wanted is true. Folders whose names begin
// with a dot or an underscore are left out, as the go command does, except .github.
func files(t *testing.T, wanted func(path string) bool) (paths []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && name != ".github" && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata"):
			return fs.SkipDir
		case !entry.IsDir() && wanted(path):
			paths = append(paths, path)
		}
		return nil
	}))
	return paths
}

// textOf returns the text of a file of the repository.
func textOf(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(content)
}

// isSource reports whether a file is Go code that is no test.
func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// documents returns all documents of the repository.
func documents(t *testing.T) (docs []*document) {
	t.Helper()
	for _, path := range files(t, func(path string) bool { return strings.HasSuffix(path, ".md") }) {
		doc, err := parse(path, []byte(textOf(t, path)))
		require.NoError(t, err)
		docs = append(docs, doc)
	}
	require.True(t, slices.ContainsFunc(docs, func(d *document) bool { return d.path == "README.md" }))
	return docs
}

// parse reads a document in the dialect of GitHub.
func parse(name string, source []byte) (*document, error) {
	d := &document{path: name}
	lineOf := func(offset int) int { return bytes.Count(source[:offset], []byte("\n")) + 1 }
	headings := map[string]int{}
	line := 1 // of the block that is being read
	err := ast.Walk(goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if n.Type() == ast.TypeBlock && n.Lines().Len() > 0 {
			line = lineOf(n.Lines().At(0).Start)
		}
		switch n := n.(type) {
		case *ast.Heading:
			d.anchors = append(d.anchors, anchor(plain(n, source), headings))
		case *ast.Text:
			line = lineOf(n.Segment.Start)
		case *ast.Link:
			d.links = append(d.links, link{first(n, line, lineOf), string(n.Destination)})
		case *ast.Image:
			d.links = append(d.links, link{first(n, line, lineOf), string(n.Destination)})
		case *ast.AutoLink:
			d.links = append(d.links, link{line, string(n.URL(source))})
		case *ast.RawHTML:
			return ast.WalkContinue, d.html(string(n.Segments.Value(source)), line)
		case *ast.HTMLBlock:
			return ast.WalkContinue, d.html(htmlOf(n, source), line)
		case *ast.CodeBlock:
			d.blocks = append(d.blocks, block{line: line, code: string(n.Lines().Value(source))})
		case *ast.FencedCodeBlock:
			d.blocks = append(d.blocks, block{
				line: line, fenced: true, tag: string(n.Language(source)), code: string(n.Lines().Value(source)),
				notRun: notRun(n.PreviousSibling(), source),
			})
		}
		return ast.WalkContinue, nil
	})
	return d, err
}

// first returns the line of the first text of a link, or the line of what comes before if it has none.
func first(n ast.Node, before int, lineOf func(int) int) int {
	if text, ok := n.FirstChild().(*ast.Text); ok {
		return lineOf(text.Segment.Start)
	}
	return before
}

// plain returns the text of a heading without its markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *ast.Text:
			b.Write(child.Segment.Value(source))
		case *ast.String:
			b.Write(child.Value)
		default:
			b.WriteString(plain(child, source))
		}
	}
	return b.String()
}

func htmlOf(n *ast.HTMLBlock, source []byte) string {
	html := string(n.Lines().Value(source))
	if n.HasClosure() {
		html += string(n.ClosureLine.Value(source))
	}
	return html
}

// html collects the links and anchors of HTML.
func (d *document) html(html string, line int) error {
	decoder := xml.NewDecoder(strings.NewReader(html))
	decoder.Strict, decoder.Entity = false, xml.HTMLEntity
	for {
		token, err := decoder.RawToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, attribute := range element.Attr {
			switch attribute.Name.Local {
			case "id", "name":
				d.anchors = append(d.anchors, attribute.Value)
			case "href", "src":
				d.links = append(d.links, link{line, attribute.Value})
			case "srcset":
				for candidate := range strings.SplitSeq(attribute.Value, ",") {
					d.links = append(d.links, link{line, strings.Fields(candidate)[0]})
				}
			}
		}
	}
}

// notRun returns the reason in a comment <!-- not run: reason -->, if that is what n is.
func notRun(n ast.Node, source []byte) string {
	comment, ok := n.(*ast.HTMLBlock)
	if !ok {
		return ""
	}
	html := strings.TrimSpace(htmlOf(comment, source))
	reason, begins := strings.CutPrefix(html, "<!-- not run:")
	reason, ends := strings.CutSuffix(reason, "-->")
	if !begins || !ends {
		return ""
	}
	return strings.TrimSpace(reason)
}

// beside returns the path in the repository of a link from the document.
func (d *document) beside(link string) string { return path.Join(path.Dir(d.path), link) }
