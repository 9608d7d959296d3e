package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/defaults"
)

// Each text that names a default has the value of the code: pages, comments, alerts, the dashboard.
func TestTexts_HaveTheDefaultsOfTheCode(t *testing.T) {
	t.Parallel()
	figure := `(\d+(?:\.\d+)?) ?(ms|s)\b`
	statements := []struct {
		pattern string
		want    time.Duration
		least   int // as many texts say it, or more
	}{
		{`(?i)node\s+timeout(?:` + "`" + `|\W| is |here )*(?:\[?` + "`?" + `pool\.WithTimeout` + "`?" + `\]?,? ?)?` + figure, defaults.NodeTimeout, 7},
		{"pool\\.WithTimeout`?\\]?,? ?\\(?" + figure, defaults.NodeTimeout, 4},
		{`one\s+command\s+on\s+one\s+(?:node|server)[^.|]{0,20}[|:] ` + figure, defaults.NodeTimeout, 1},
		{`after the TTL \(` + figure, defaults.TTL, 1},
	}
	found := make([]int, len(statements))
	for _, path := range textsWithDefaults(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for i, statement := range statements {
			for _, match := range regexp.MustCompile(statement.pattern).FindAllStringSubmatch(string(text), -1) {
				got, err := time.ParseDuration(match[1] + match[2])
				require.NoError(t, err)
				require.Equal(t, statement.want, got, "%s: %q", path, match[0])
				found[i]++
			}
		}
	}
	for i, statement := range statements {
		require.GreaterOrEqual(t, found[i], statement.least, fmt.Sprint("the pattern fits too few texts: ", statement.pattern))
	}
}

func textsWithDefaults(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "pool/*.go", "redlock/*.go", "promredlock/*.yml", "promredlock/*.json", "promredlock/*.go", "adapters/*/*.go"} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range matches {
			if !strings.HasSuffix(path, "_test.go") {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
