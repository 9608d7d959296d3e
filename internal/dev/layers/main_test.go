package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun_PutsUsersAboveWhatTheyUse(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/p\n\ngo 1.25\n",
		"a.go":   "package p\n\nimport \"strings\"\n\ntype low struct{}\n\nfunc (low) do() string { return strings.ToUpper(word) }\n",
		"b.go":   "package p\n\nconst word = \"w\"\n",
		"c.go":   "package p\n\nvar _ = low{}.do()\n\nvar _ = word\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	var out strings.Builder
	require.NoError(t, run(&out, []string{"."}))
	require.Equal(t, "example.org/p: 0 of 3 uses between files run upward\n  c.go a.go b.go\n", out.String())

	require.NoError(t, os.WriteFile("b.go", []byte("package p\n\nconst word = \"w\"\n\nvar _ low\n"), 0o600))
	out.Reset()
	require.NoError(t, run(&out, []string{"."}))
	require.Contains(t, out.String(), "example.org/p: 1 of 4 uses between files run upward\n")
	require.ErrorContains(t, run(&out, []string{"./nowhere"}), "go list")
}
