package history_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLoad_JoinsBeginningsAndEndsAndLeavesOpenWhatHasNotEnded(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	a, err := history.NewRecorder(first, "a")
	require.NoError(t, err)
	b, err := history.NewRecorder(second, "b")
	require.NoError(t, err)
	call := a.Begin(history.Op{Kind: history.Acquire, Name: "n"})
	other := b.Begin(history.Op{Kind: history.Unlock, Name: "n"})
	call.Hold = "h"
	a.End(call)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	// The process was killed while it wrote.
	file, err := os.OpenFile(second, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"k":"proof`)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	ops, err := history.Load(second, first)
	require.NoError(t, err)
	require.Len(t, ops, 2)
	require.Equal(t, *call, *ops[0])
	require.True(t, ops[0].Ended())
	require.Equal(t, *other, *ops[1])
	require.False(t, ops[1].Ended())
}

func TestLoad_RefusesWhatIsNoHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	require.NoError(t, os.WriteFile(path, []byte("{}\nhello\n"), 0o600))
	_, err := history.Load(path)
	require.ErrorContains(t, err, "hello")
}
