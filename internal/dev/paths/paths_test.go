package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestPage_IsThatOfTheCode(t *testing.T) {
	const root = "../../.."
	want, err := os.ReadFile(root + "/docs/paths.md")
	require.NoError(t, err)
	var got string
	for range 5 { // what is under way at the same time comes in another order now and then
		got, err = page(root, testredis.Real(t, 1)[0].Addr())
		require.NoError(t, err)
		if sorted(got) == sorted(string(want)) {
			return
		}
	}
	require.Equal(t, sorted(string(want)), sorted(got), "make paths")
}

func sorted(text string) string {
	return strings.Join(slices.Sorted(strings.SplitSeq(text, "\n")), "\n")
}

func TestTree_HasEachFunctionOnce(t *testing.T) {
	stacks := [][]string{{}, {"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "c", "d"}, {"e"}, {"a", "e", "b"}, {"e", "f"}}
	c := tree(stacks, nil)
	require.Equal(t, &call{calls: []*call{
		{"a", []*call{{"b", []*call{{"c", nil}}}, {"c", []*call{{"d", nil}}}}},
		{"e", []*call{{"f", nil}}},
	}}, c)
	require.Equal(t, &call{calls: []*call{{"a", []*call{{"c", []*call{{"d", nil}}}}}}}, tree(stacks[:5], map[string]bool{"a": true, "b": true, "c": true}))
}
