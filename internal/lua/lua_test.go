package lua_test

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by their SHA-1
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lua"
)

// Trap 25: with a wrong or stale hash every call takes two round trips, unnoticed.
func TestTheHashWrittenDownIsTheHashOfTheScript(t *testing.T) {
	for name, script := range map[string]*lua.Script{
		"release": lua.Release(), "extend": lua.Extend(), "look": lua.Look(), "force": lua.Force(), "heal": lua.Heal(),
		"fenced_acquire": lua.FencedAcquire(), "raise": lua.Raise(), "fenced_release": lua.FencedRelease(), "fenced_extend": lua.FencedExtend(),
		"joined": lua.Joined(),
	} {
		sum := sha1.Sum([]byte(script.Source)) //nolint:gosec // see the import
		require.Equal(t, hex.EncodeToString(sum[:]), script.Hash, "the Hash of %s.lua", name)
	}
}
