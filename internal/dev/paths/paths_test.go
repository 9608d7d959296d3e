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

// What happens at the same time comes in another order now and then, and on a busy machine often. So the page has what some recording has,
// and not less than all have.
func TestPage_IsThatOfTheCode(t *testing.T) {
	const root, most = "../../..", 10
	text, err := os.ReadFile(root + "/docs/paths.md")
	require.NoError(t, err)
	recorder, about, err := newRecorder(root, t.TempDir(), testredis.Real(t, 1)[0].Addr())
	require.NoError(t, err)
	shown := map[string]map[string]bool{}
	for _, s := range sections {
		_, section, found := strings.Cut(string(text), "\n## "+s.title+"\n")
		require.True(t, found, s.title)
		section, _, _ = strings.Cut(section, "\n## ")
		shown[s.path] = map[string]bool{}
		for _, m := range item.FindAllStringSubmatch(section, -1) {
			name := path.Dir(m[2]) + " " + m[1]
			require.Equal(t, about[name], remark{m[2], m[3]}, "make paths")
			shown[s.path][name] = true
		}
		require.NotEmpty(t, shown[s.path])
	}
	var all []recording
	for wrong := []string{""}; len(wrong) > 0; wrong = differences(shown, all) {
		require.Less(t, len(all), most, "make paths: %q", wrong)
		r, err := recorder.record()
		require.NoError(t, err)
		all = append(all, r)
	}
}

// differences returns the functions that a section shows and no recording has, and those that all recordings have and it does not show.
func differences(shown map[string]map[string]bool, all []recording) (wrong []string) {
	first := shown[sections[0].path]
	for _, s := range sections {
		in := map[string]int{} // how many recordings
		for _, r := range all {
			for name := range r.functions(s.path) {
				in[name]++
			}
		}
		for name := range shown[s.path] {
			if in[name] == 0 {
				wrong = append(wrong, name+" is on the page, in "+s.title)
			}
		}
		for name, n := range in {
			if n == len(all) && !shown[s.path][name] && !first[name] {
				wrong = append(wrong, name+" is not on the page, in "+s.title)
			}
		}
	}
	return wrong
}

func TestDifferences(t *testing.T) {
	in := func(names ...string) recording { return recording{"lost": {names}} }
	shown := map[string]map[string]bool{"TryLock": {"first": true}, "lost": {"a": true, "b": true}}
	for _, c := range []struct {
		all  []recording
		want []string
	}{
		{[]recording{in("a", "b")}, nil},
		{[]recording{in("a", "b", "first")}, nil},
		{[]recording{in("a")}, []string{"b is on the page, in A Lock that waits: its first round is lost"}},
		{[]recording{in("a"), in("b")}, nil},
		{[]recording{in("a", "b", "c")}, []string{"c is not on the page, in A Lock that waits: its first round is lost"}},
		{[]recording{in("a", "b", "c"), in("a")}, nil},
	} {
		c.all[0]["TryLock"] = [][]string{{"first"}}
		require.Equal(t, c.want, differences(shown, c.all), "%v", c.all)
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
