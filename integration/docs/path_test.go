package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	method  = regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)(?:\[\w+\])?\) (\w+)[(\[]`)
	field   = regexp.MustCompile(`(?m)^\t(\w+) +func\(`)
	row     = regexp.MustCompile(`(?m)^\| \d+ \|.*$`)
	spelled = regexp.MustCompile("`(\\w+)\\.(\\w+)`")
)

// The tables of docs/design.md show the way of a call through the code. Each function that they name is there.
func TestDesign_NamesFunctionsThatAreThere(t *testing.T) {
	there, fields := map[string]bool{}, map[string]bool{}
	for _, name := range files(t, func(name string) bool {
		return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
			(strings.HasPrefix(name, "redlock/") || strings.HasPrefix(name, "internal/"))
	}) {
		source, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for _, m := range method.FindAllStringSubmatch(string(source), -1) {
			there[m[1]+"."+m[2]] = true
		}
		for _, m := range field.FindAllStringSubmatch(string(source), -1) {
			fields[m[1]] = true
		}
	}
	design, err := os.ReadFile(filepath.Join(root, "docs/design.md"))
	require.NoError(t, err)
	named := 0
	for _, line := range row.FindAllString(string(design), -1) {
		for _, m := range spelled.FindAllStringSubmatch(line, -1) {
			named++
			assert.True(t, there[m[1]+"."+m[2]] || fields[m[2]], "%s.%s", m[1], m[2])
		}
	}
	require.Greater(t, named, 100)
}
