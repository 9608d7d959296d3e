package mutation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/mutation"
)

func TestAll_EachChangesOnePlaceOfTheSource(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutation.All() {
		_, err := m.Overlay("../../..", t.TempDir())
		require.NoError(t, err)
		require.False(t, names[m.Name], m.Name)
		names[m.Name] = true
	}
}
