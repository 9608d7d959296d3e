package caddylock_test

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/stretchr/testify/require"
)

// blocks returns the blocks of code in the comment of the package.
func blocks(t *testing.T) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		if code, ok := block.(*comment.Code); ok {
			all = append(all, strings.TrimSpace(code.Text))
		}
	}
	return all
}

func TestDoc_TheCaddyfileIsTheJSON(t *testing.T) {
	all := blocks(t)
	require.Len(t, all, 3)
	d := caddyfile.NewTestDispenser(all[1])
	for _, token := range []string{"{", "storage", "redlock"} {
		require.True(t, d.Next())
		require.Equal(t, token, d.Val())
	}
	module, err := caddyfile.UnmarshalModule(d, "caddy.storage.redlock")
	require.NoError(t, err)
	storage := caddyconfig.JSONModuleObject(module, "module", "redlock", nil)
	require.JSONEq(t, "{"+all[2]+"}", `{"storage": `+string(storage)+"}")
}

func TestDoc_XcaddyGetsTheNameOfTheModule(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	name, _, _ := strings.Cut(strings.TrimPrefix(string(mod), "module "), "\n")
	require.Equal(t, "xcaddy build --with "+name, blocks(t)[0])
}
