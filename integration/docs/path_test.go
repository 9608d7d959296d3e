package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	method  = regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)(?:\[\w+\])?\) (\w+)[(\[]`)
	field   = regexp.MustCompile(`(?m)^\t(\w+) +func\(`)
	spelled = regexp.MustCompile("`(\\w+)\\.(\\w+)`")
)

// A section of docs/design.md has what docs/paths.md does not show of the way of a call. Each function that it names is there.
func TestDesign_NamesFunctionsThatAreThere(t *testing.T) {
	there, fields := map[string]bool{}, map[string]bool{}
	for _, name := range files(t, func(name string) bool {
		return isSource(name) && (strings.HasPrefix(name, "redlock/") || strings.HasPrefix(name, "internal/"))
	}) {
		source := textOf(t, name)
		for _, m := range method.FindAllStringSubmatch(source, -1) {
			there[m[1]+"."+m[2]] = true
		}
		for _, m := range field.FindAllStringSubmatch(source, -1) {
			fields[m[1]] = true
		}
	}
	_, section, _ := strings.Cut(textOf(t, "docs/design.md"), "\n## The way of a call\n")
	section, _, _ = strings.Cut(section, "\n## ")
	named := spelled.FindAllStringSubmatch(section, -1)
	require.Greater(t, len(named), 10)
	for _, m := range named {
		assert.True(t, there[m[1]+"."+m[2]] || fields[m[2]], "%s.%s", m[1], m[2])
	}
}
