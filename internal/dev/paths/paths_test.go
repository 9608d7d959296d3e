package main

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

var item = regexp.MustCompile("(?m)^ *- \\[`(.*)`\\]\\(\\.\\./([^)]*)\\) ?(.*)$")

// What happens at the same time comes in another order now and then. So the page has what some recording has, and not less than all have.
func TestPage_IsThatOfTheCode(t *testing.T) {
	const root = "../../.."
	text, err := os.ReadFile(root + "/docs/paths.md")
	require.NoError(t, err)
	all, about, err := recordings(root, testredis.Real(t, 1)[0].Addr())
	require.NoError(t, err)
	known := map[string]bool{}
	for _, s := range sections {
		_, section, found := strings.Cut(string(text), "\n## "+s.title+"\n")
		require.True(t, found, s.title)
		section, _, _ = strings.Cut(section, "\n## ")
		shown := map[string]bool{}
		for _, m := range item.FindAllStringSubmatch(section, -1) {
			name := path.Dir(m[2]) + " " + m[1]
			require.Equal(t, about[name], remark{m[2], m[3]}, "make paths")
			shown[name] = true
		}
		require.NotEmpty(t, shown)
		in := map[string]int{} // how many recordings
		for _, r := range all {
			for name := range r.functions(s.path) {
				in[name]++
			}
		}
		for name := range shown {
			require.NotZero(t, in[name], "make paths: %s is on the page, in %s", name, s.title)
		}
		for name, n := range in {
			require.True(t, n < len(all) || shown[name] || known[name], "make paths: %s is not on the page, in %s", name, s.title)
		}
		if len(known) == 0 {
			known = shown
		}
	}
}

func TestTree_HasEachFunctionOnce(t *testing.T) {
	stacks := [][]string{{}, {"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "c", "d"}, {"e"}, {"a", "e", "b"}, {"e", "f"}}
	c := tree(stacks, func(string) bool { return true })
	require.Equal(t, &call{calls: []*call{
		{"a", []*call{{"b", []*call{{"c", nil}}}, {"c", []*call{{"d", nil}}}}},
		{"e", []*call{{"f", nil}}},
	}}, c)
	c = tree(stacks[:5], func(name string) bool { return name == "d" })
	require.Equal(t, &call{calls: []*call{{"a", []*call{{"c", []*call{{"d", nil}}}}}}}, c)
}
