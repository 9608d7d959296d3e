package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of scripts in docs/protocol.md has each script that clients may send, and each number that it returns.
func TestProtocol_StatesTheRepliesOfEachScript(t *testing.T) {
	page := textOf(t, "docs/protocol.md")
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`[^|]*\\| (.*) \\|$").FindAllStringSubmatch(page, -1) {
		rows[row[1]] = row[2]
	}
	paths, err := filepath.Glob(filepath.Join(root, "internal/form/*.lua"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	number := regexp.MustCompile(`(^|[^\d.])(-?\d+)\b`)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".lua")
		if slices.Contains([]string{"acquire", "prove", "joined", "sharers"}, name) { // no scripts, or of the library's own connections
			continue
		}
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		row := rows[name]
		require.NotEmpty(t, row, "docs/protocol.md has no replies of the script %s", name)
		if as := regexp.MustCompile("^as `([a-z_]+)`").FindStringSubmatch(row); as != nil {
			row += "; " + rows[as[1]]
		}
		stated, returned := map[string]bool{"-2": true, "-3": true}, map[string]bool{"-2": true, "-3": true} // said of all scripts
		for _, m := range number.FindAllStringSubmatch(row, -1) {
			stated[m[2]] = true
		}
		for _, line := range regexp.MustCompile(`(?m)^--   ((-?\d+)( and -?\d+)?)(:| \+|,)(.*)`).FindAllStringSubmatch(string(source), -1) {
			for _, m := range number.FindAllStringSubmatch(line[1]+line[4]+line[5], -1) {
				returned[m[2]] = true
			}
		}
		if strings.Contains(row, "slot") { // 1 + 2 x slot
			returned["2"] = true
		}
		require.Equal(t, returned, stated, "the replies of the script %s in docs/protocol.md", name)
	}
}
