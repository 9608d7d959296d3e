package docs_test

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the counts into testdata/words.txt")

// habits are turns of phrase at which readers have to stop. CONTRIBUTING says what to write in their place.
var habits = map[string]*regexp.Regexp{
	"takes it that":   regexp.MustCompile(`(?i)\btakes? it that\b`),
	"so many":         regexp.MustCompile(`(?i)\bso many\b`),
	"any/no more":     regexp.MustCompile(`(?i)\b(any|no) more\b`),
	"those who":       regexp.MustCompile(`(?i)\bthose (who|that|of|which)\b`),
	"whoever":         regexp.MustCompile(`(?i)\bwhoever\b`),
	"as far as":       regexp.MustCompile(`(?i)\bas far as\b`),
	"anew":            regexp.MustCompile(`(?i)\banew\b`),
	"nor":             regexp.MustCompile(`(?i)\bnor\b`),
	"; 0 means":       regexp.MustCompile(`; (0|nil|zero|"") means\b`),
	"headless what":   regexp.MustCompile(`(?i)\bwhat (it|has|is|was|are|were)\b`),
	"has it observed": regexp.MustCompile(`(?i)\bhas [^.,;:()]{1,40} (called|carried|looked|made|noticed|observed|released|renewed|run|sent|taken|told|woken)\b`),
}

// The counts may only fall: a change that adds one to them is written in other words, and one that removes some writes the file.
func TestWords_HabitsBecomeFewer(t *testing.T) {
	var comments, pages strings.Builder
	for _, file := range files(t, func(file string) bool { return strings.HasSuffix(file, ".go") && inLibrary(file) }) {
		comments.WriteString(commentsOf(t, file))
	}
	for _, file := range files(t, func(file string) bool { return strings.HasSuffix(file, ".md") }) {
		pages.WriteString(inOneLine(textOf(t, file)))
	}
	var counts strings.Builder
	for _, name := range slices.Sorted(maps.Keys(habits)) {
		count := func(b *strings.Builder) int { return len(habits[name].FindAllString(b.String(), -1)) }
		fmt.Fprintf(&counts, "%-16s %4d in comments %4d in pages\n", name, count(&comments), count(&pages))
	}
	const limits = "testdata/words.txt"
	if *update {
		require.NoError(t, os.WriteFile(limits, []byte(counts.String()), 0o600))
		return
	}
	limit, err := os.ReadFile(limits)
	require.NoError(t, err)
	require.Equal(t, string(limit), counts.String(), "if they have fallen: go -C integration test ./docs -run Words -update")
}

// inLibrary reports whether programs import a file, in a package that they see or one below.
func inLibrary(file string) bool {
	if strings.HasSuffix(file, "_test.go") {
		return false
	}
	if below, internal := strings.CutPrefix(path.Dir(file), "internal/"); internal {
		return slices.Contains([]string{"engine", "form", "invalid", "lock", "node", "quorum", "token", "wire"}, below)
	}
	first, _, _ := strings.Cut(file, "/")
	return slices.Contains([]string{"clock", "pool", "redlock"}, first)
}

// commentsOf returns the comments of a file, each in one line.
func commentsOf(t *testing.T, file string) string {
	source, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ParseComments)
	require.NoError(t, err)
	var text strings.Builder
	for _, group := range source.Comments {
		text.WriteString(inOneLine(group.Text()))
	}
	return text.String()
}

// inOneLine returns a text without its breaks.
func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") + "\n" }
