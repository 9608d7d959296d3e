package weaken_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/weaken"
)

func TestRules_EachChangesOnePlaceOfTheSource(t *testing.T) {
	names := map[string]bool{}
	for _, m := range weaken.Rules() {
		_, err := m.Overlay("../../..", t.TempDir())
		require.NoError(t, err)
		require.False(t, names[m.Name], m.Name)
		names[m.Name] = true
	}
	require.GreaterOrEqual(t, len(names), 16)
}
