package docs_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// anchor returns the id that GitHub gives to a heading, and counts it: the second heading of the same text gets "-1", the
// third "-2" (github.com/gjtorikian/html-pipeline, table_of_contents_filter.rb).
func anchor(heading string, seen map[string]int) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', unicode.IsLetter(r), unicode.IsMark(r), unicode.Is(unicode.Nd, r), unicode.Is(unicode.Pc, r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	n := seen[id]
	seen[id]++
	if n > 0 {
		return fmt.Sprintf("%s-%d", id, n)
	}
	return id
}

func TestAnchor_FollowsTheRulesOfGitHub(t *testing.T) {
	t.Parallel()
	d, err := parse("a.md", []byte("# Exit code\n\n## `redlock run`: a *job*, once!\n\n## Exit code\n\n"+
		"Exit  code\n---\n\n### [Größe](b.md) & snake_case – 1.5\n\n<a id=\"own\"></a>text\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"exit-code", "redlock-run-a-job-once", "exit-code-1", "exit--code", "größe--snake_case--15", "own"}, d.anchors)
}
