package fence_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

func nothing() error { return nil }

func TestGate_RejectsALowerFenceAndAcceptsTheSame(t *testing.T) {
	var gate fence.Gate
	require.NoError(t, gate.Run("a", 33, nothing))
	require.NoError(t, gate.Run("a", 33, nothing))
	require.NoError(t, gate.Run("a", highest, nothing))
	requireStale(t, gate.Run("a", 34, func() error { panic("called") }), "a", 34, highest)
	require.NoError(t, gate.Run("b", 1, nothing), "another resource")
	requireInvalid(t, gate.Run("b", 2, nil), "no function to write")
	require.NoError(t, gate.Run("b", 1, nothing), "nothing was stored")
}

func TestGate_AfterAFailedWriteTheFenceStaysStored(t *testing.T) {
	var gate fence.Gate
	broken := errors.New("disk full")
	require.Equal(t, broken, gate.Run("a", 33, func() error { return broken }))
	require.Panics(t, func() { _ = gate.Run("a", 34, func() error { panic("broken") }) })
	requireStale(t, gate.Run("a", 33, nothing), "a", 33, 34)
	require.NoError(t, gate.Run("a", 34, nothing))
}

func TestGate_WritesToOtherResourcesRunMeanwhile(t *testing.T) {
	var gate fence.Gate
	require.NoError(t, gate.Run("a", 33, func() error { return gate.Run("b", 1, nothing) }))
}

// The writes share plain variables, which the race detector watches.
func TestGate_RunsOneWriteAtATimeAndFencesNeverDecrease(t *testing.T) {
	var gate fence.Gate
	var fences []uint64
	refused := 0
	var mu sync.Mutex // of refused
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(uint64(i), 2))
			for j := range 200 {
				number := 1 + uint64(j) + dice.Uint64N(50)
				err := gate.Run("a", number, func() error {
					fences = append(fences, number)
					return nil
				})
				if err != nil {
					assert.ErrorIs(t, err, fence.ErrStale)
					mu.Lock()
					refused++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	require.True(t, slices.IsSorted(fences), "%v", fences)
	require.Equal(t, 8*200, len(fences)+refused)
	require.NotZero(t, refused, "no write was stale")
}
