package display_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

func TestJSON_LeavesNoControlCharacters(t *testing.T) {
	text := "a\x00\x1b[2J\x7f\u009b2J\u202egnp\u2028\ufeff\U000e0041 <日本> \"\\\n\u00a0😀"
	for _, indent := range []string{"", "  "} {
		var b bytes.Buffer
		require.NoError(t, display.JSON(&b, map[string]any{text: []string{text}}, indent))
		for _, r := range b.String() {
			require.True(t, unicode.IsPrint(r) || r == '\n', "%U in %s", r, b.String())
		}
		require.Contains(t, b.String(), `\u007f\u009b2J\u202egnp\u2028\ufeff\udb40\udc41 <日本>`)
		var back map[string][]string
		require.NoError(t, json.Unmarshal(b.Bytes(), &back))
		require.Equal(t, map[string][]string{text: {text}}, back)
	}
	require.Error(t, display.JSON(&bytes.Buffer{}, make(chan int), ""))
}

func TestJSON_IsALineUnlessIndented(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, display.JSON(&b, []int{1, 2}, ""))
	require.NoError(t, display.JSON(&b, []int{1}, "  "))
	require.Equal(t, "[1,2]\n[\n  1\n]\n", b.String())
}
