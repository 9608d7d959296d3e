package docs_test

import (
	"go/doc/comment"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// otherBlocks are the blocks in comments of packages that are no Go code, by folder and first line. A test of caddylock reads those
// of its configuration.
var otherBlocks = []string{
	"adapters/caddylock: xcaddy build --with " + module + "/adapters/caddylock",
	"adapters/caddylock: {",
	`adapters/caddylock: "storage": {`,
	"chaos: chaos -duration 30m -seed 1     all faults that locks have to survive",
	"redlock:                         Lock, Do      TryLock, TryDo   Attach",
	"redlock: nil           a majority held the lock until now, or another handle still holds it",
	"redlock/fence: UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?",
}

func TestComments_HaveBlocksOfGoThatAreQuotedFromCodeThatIsRun(t *testing.T) {
	t.Parallel()
	all := sources(t)
	var others []string
	count := 0
	for _, dir := range published(t) {
		p, err := load(dir)
		require.NoError(t, err, dir)
		for name, texts := range comments(p) {
			for _, code := range codeOf(p.Parser(), texts) {
				first, _, _ := strings.Cut(code, "\n")
				if other := dir + ": " + first; slices.Contains(otherBlocks, other) {
					others = append(others, other)
					continue
				}
				assert.NoErrorf(t, quoted(code, all), "%s: %s", dir, name)
				count++
			}
		}
	}
	assert.ElementsMatch(t, otherBlocks, others)
	require.NotZero(t, count)
}

// codeOf returns the blocks of code in the texts of comments.
func codeOf(parser *comment.Parser, texts []string) (blocks []string) {
	for _, text := range texts {
		for _, block := range parser.Parse(text).Content {
			if code, ok := block.(*comment.Code); ok {
				blocks = append(blocks, code.Text)
			}
		}
	}
	return blocks
}
