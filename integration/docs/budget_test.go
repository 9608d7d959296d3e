package docs_test

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// budgets are the numbers of words that pages may have. Who adds a word beyond them takes one out.
var budgets = map[string]int{
	"README.md": 950, "CHANGELOG.md": 350,
	"docs/guide.md": 3400, "docs/failures.md": 920, "docs/recipes.md": 2300, "docs/fencing.md": 1900, "docs/safety.md": 2500,
	"docs/protocol.md": 1900, "docs/design.md": 3000, "docs/operations.md": 3200, "docs/proof.md": 2400, "docs/migrating.md": 3000,
	"docs/comparison.md": 2030, "docs/telemetry.md": 2700, "docs/tracing.md": 1300, "docs/tool.md": 3500, "docs/doctor.md": 940,
	"docs/benchmarks.md": 2600, "docs/chaos.md": 1200, "docs/failover.md": 900,
}

// packageBudgets are the numbers of words that `go doc -all` may print.
var packageBudgets = map[string]int{"redlock": 5000, "redlock/event": 1300, "redlock/fence": 1800}

// hidden matches what a reader of a page does not see.
var hidden = regexp.MustCompile(`(?s)<!--.*?-->`)

// words returns how many words a text has: what stands between spaces, and has a letter or a digit.
func words(text string) (n int) {
	for _, field := range strings.Fields(text) {
		if strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

func TestBudgets_NoPageIsLongerThanItsReadersHaveTime(t *testing.T) {
	t.Parallel()
	sum := 0
	for name, most := range budgets {
		n := words(hidden.ReplaceAllString(textOf(t, name), ""))
		assert.LessOrEqual(t, n, most, name)
		sum += n
	}
	require.LessOrEqual(t, sum, 40_700)
	for _, page := range files(t, func(name string) bool { return strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md") }) {
		if !strings.HasPrefix(page, "docs/adr/") && page != "docs/paths.md" { // which tests write
			require.Contains(t, budgets, page, "a page without a budget")
		}
	}
}

func TestBudgets_NoPackageHasMoreToRead(t *testing.T) {
	t.Parallel()
	for dir, most := range packageBudgets {
		list := exec.Command("go", "doc", "-all", "./"+dir)
		list.Dir = root
		text, err := list.Output()
		require.NoError(t, err, dir)
		assert.LessOrEqual(t, words(string(text)), most, dir)
	}
	p, err := load("redlock")
	require.NoError(t, err)
	require.LessOrEqual(t, words(p.Doc), 450)
	options := 0
	for name, texts := range comments(p) {
		most := 150
		if isOption(name) {
			most = 60
			options++
		}
		if name != "package" {
			assert.LessOrEqual(t, words(strings.Join(texts, " ")), most, name)
		}
	}
	require.Greater(t, options, 20)
}

// isOption reports whether a function of package redlock makes an option.
func isOption(name string) bool {
	return strings.HasPrefix(name, "With") || slices.Contains([]string{
		"TTL", "MaxWait", "MaxOutage", "RenewFor", "Grace", "Metadata", "TokenSource", "Shared", "Slots", "Reentrant", "Owner",
	}, name)
}

// span matches code in a line of a document.
var span = regexp.MustCompile("`([^`]+)`")

var (
	// qualified matches a name of a public package.
	qualified = regexp.MustCompile(`\b(redlock|pool|nodeerr|fence|event|protocol|election|redlocktest|promredlock|otelredlock)\.([A-Z]\w*(?:\.[A-Z]\w*)?)`)
	// bare matches what is a name of a public package, if it is not that of another library.
	bare = regexp.MustCompile(`^(?:Err|With)[A-Z]\w*\b`)
	// others are names of other libraries.
	others = []string{
		"ErrExtendFailed", "ErrFailed", "ErrLockAlreadyExpired", "ErrLockNotHeld", "ErrNodeTaken", "ErrNotLocked", "ErrNotObtained",
		"WithContext", "WithDriftFactor", "WithExpiry", "WithFailFast", "WithGenValueFunc", "WithRetryDelay", "WithRetryDelayFunc",
		"WithSetNXOnExtend", "WithShufflePools", "WithTimeoutFactor", "WithTries", "WithValue",
	}
)

var packages = map[string]string{
	"redlock": "redlock", "pool": "pool", "nodeerr": "pool/nodeerr", "fence": "redlock/fence", "event": "redlock/event",
	"protocol": "redlock/event/protocol", "election": "redlock/election", "redlocktest": "redlock/redlocktest",
	"promredlock": "promredlock", "otelredlock": "otelredlock",
}

// The danger: a page that explains an option which was renamed.
func TestNames_ThatPagesHaveExist(t *testing.T) {
	t.Parallel()
	exported, all := map[string]map[string][]string{}, []string{}
	for short, dir := range packages {
		p, err := load(dir)
		require.NoError(t, err, dir)
		exported[short] = comments(p)
		all = slices.AppendSeq(all, maps.Keys(exported[short]))
	}
	found := 0
	for name := range budgets {
		for _, match := range span.FindAllStringSubmatch(textOf(t, name), -1) {
			code := match[1]
			for _, used := range qualified.FindAllStringSubmatch(code, -1) {
				found++
				first, _, isMember := strings.Cut(used[2], ".")
				_, is := exported[used[1]][used[2]]
				_, isField := exported[used[1]][first]
				assert.True(t, is || isField && isMember, "%s: %s", name, used[0])
			}
			if used := bare.FindString(code); used != "" && !slices.Contains(others, used) {
				found++
				assert.True(t, slices.Contains(all, used), "%s: %s", name, used)
			}
		}
	}
	require.Greater(t, found, 100)
}
