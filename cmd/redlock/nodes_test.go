package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestEmbedded_KeyExpiresWhenItsTTLIsOverAndNotBefore(t *testing.T) {
	a := testParty(t, testScenario(t, 3))
	first, err := a.locker.TryLock(t.Context(), "name", redlock.TTL(50*time.Millisecond))
	require.NoError(t, err)
	<-first.Done()
	second, err := a.locker.Lock(t.Context(), "name")
	require.NoError(t, err)
	require.ErrorIs(t, first.Unlock(t.Context()), redlock.ErrNotHeld)
	require.NoError(t, second.Unlock(t.Context()))
}
