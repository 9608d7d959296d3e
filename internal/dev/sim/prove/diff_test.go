package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/mutation"
)

func TestDiff_ShowsTheFirstLineThatABuildWithAnotherRuleHas(t *testing.T) {
	t.Chdir("../../../..")
	all := mutation.All()
	m := all[slices.IndexFunc(all, func(m mutation.Mutation) bool { return m.Name == "no-drift" })]
	overlay, err := m.Overlay(".", t.TempDir())
	require.NoError(t, err)
	there := build(t, "-overlay", overlay)
	found, err := there.difference(1, 20)
	require.NoError(t, err)
	t.Log(found)
	shown := regexp.MustCompile(`^seed \d+ differs in line \d+:\n(?:  .+\n){5}- (.+)\n\+ (.+)$`).FindStringSubmatch(found)
	require.Len(t, shown, 3)
	require.NotEqual(t, shown[1], shown[2])
	require.ErrorIs(t, diff(there, 1, 20), errDiffers)
}

func TestDiff_ABuildOfTheSameSourcesRunsInTheSameWay(t *testing.T) {
	t.Chdir("../../../..")
	there := build(t)
	found, err := there.difference(1, 20)
	require.NoError(t, err)
	require.Empty(t, found)
	require.NoError(t, diff(there, 1, 20))
}

// build returns another prove.
func build(t *testing.T, flags ...string) older {
	path := filepath.Join(t.TempDir(), "prove")
	out, err := exec.Command("go", slices.Concat([]string{"build", "-o", path}, flags, []string{"./internal/dev/sim/prove"})...).CombinedOutput()
	require.NoError(t, err, string(out))
	return older(path)
}
