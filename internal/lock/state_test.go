package lock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQueue_StatesAreThoseOfTheDocumentation(t *testing.T) {
	const path, begin, end = "../../docs/design.md", "<!-- states: go test ./internal/lock -run StatesAre -update -->\n", "<!-- end of states -->"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, begins := strings.Cut(string(text), begin)
	was, after, ends := strings.Cut(rest, end)
	require.True(t, begins && ends, "%s and %s in %s", begin, end, path)
	table := statesOf(t, "state.go")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+table+end+after), 0o600))
	} else {
		require.Equal(t, table, was)
	}
}

// statesOf returns the table of the states in a source file: what each means, and to which it changes.
func statesOf(t *testing.T, file string) string {
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	require.NoError(t, err)
	var names []string
	means, changes := map[string]string{}, map[string][]ast.Expr{}
	ast.Inspect(source, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if n.Comment != nil {
				names = append(names, n.Names[0].Name)
				means[n.Names[0].Name] = strings.TrimSpace(n.Comment.Text())
			}
		case *ast.KeyValueExpr:
			if to, ok := n.Value.(*ast.CompositeLit); ok {
				changes[n.Key.(*ast.Ident).Name] = to.Elts
			}
		}
		return true
	})
	require.Len(t, names, 4)
	require.Len(t, changes, 4)
	var table strings.Builder
	fmt.Fprintf(&table, "| state | means | to %s |\n|---|---|%s\n", strings.Join(names, " | to "), strings.Repeat("---|", len(names)))
	for _, name := range names {
		fmt.Fprintf(&table, "| %s | %s |", name, means[name])
		for _, may := range changes[name] {
			fmt.Fprintf(&table, " %s |", map[string]string{"true": "yes", "false": "never"}[may.(*ast.Ident).Name])
		}
		table.WriteString("\n")
	}
	return table.String()
}
