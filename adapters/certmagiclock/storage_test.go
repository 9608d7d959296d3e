package certmagiclock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/certmagiclock"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/redlocktest"
)

// instances runs a test with two instances of a program, in the time of a bubble.
func instances(t *testing.T, test func(t *testing.T, cluster *redlocktest.Cluster, a, b *certmagiclock.Storage)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, files := redlocktest.New(t), &certmagic.FileStorage{Path: t.TempDir()}
		wrap := func() *certmagiclock.Storage {
			s, err := certmagiclock.New(files, cluster.Locker())
			require.NoError(t, err)
			return s
		}
		test(t, cluster, wrap(), wrap())
	})
}

func try(t *testing.T, s *certmagiclock.Storage, name string) bool {
	t.Helper()
	ok, err := s.TryLock(t.Context(), name)
	require.NoError(t, err)
	return ok
}

func TestStorage_ALockIsHeldUntilUnlockHoweverLongThatIs(t *testing.T) {
	instances(t, func(t *testing.T, cluster *redlocktest.Cluster, a, b *certmagiclock.Storage) {
		require.NoError(t, a.Lock(t.Context(), "x"))
		require.True(t, try(t, a, "y"))
		cluster.Advance(2 * time.Minute)
		for _, name := range []string{"x", "y"} {
			require.False(t, try(t, b, name))
			require.False(t, try(t, a, name))
			require.NoError(t, a.RenewLockLease(t.Context(), name, time.Minute))
		}
		waited := make(chan error, 1)
		go func() { waited <- b.Lock(t.Context(), "x") }()
		cluster.Advance(time.Minute)
		require.Empty(t, waited)
		require.NoError(t, a.Unlock(t.Context(), "x"))
		require.NoError(t, <-waited)
		require.False(t, try(t, a, "x"))
		require.NoError(t, a.Unlock(t.Context(), "y"))
		require.True(t, try(t, b, "y"))
	})
}

// The danger: certmagic does not ask again.
func TestLock_WaitsWhateverTheDefaultsOfTheLockerAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		s, err := certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()},
			cluster.Locker(redlock.MaxWait(time.Second), redlock.MaxOutage(time.Second)))
		require.NoError(t, err)
		for again, wait := range map[string]func() error{
			"Lock":           func() error { return s.Lock(t.Context(), "x") },
			"RenewLockLease": func() error { return s.RenewLockLease(t.Context(), "x", time.Minute) },
		} {
			if again == "RenewLockLease" {
				require.NoError(t, s.Lock(t.Context(), "x"))
				cluster.Delete("x")
				cluster.Advance(time.Minute)
			}
			release := cluster.Hold("x")
			waited := make(chan error, 1)
			go func() { waited <- wait() }()
			cluster.Advance(time.Minute)
			cluster.Stop(0, 1)
			cluster.Advance(time.Minute)
			require.Empty(t, waited, again)
			cluster.Start(0, 1)
			release()
			require.NoError(t, <-waited)
			require.NoError(t, s.Unlock(t.Context(), "x"))
		}
	})
}

// Before a majority has ever answered, redlock.Locker.Lock returns at once if the servers refuse it.
func TestLock_TriesAgainWhileTheServersRefuseIt(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 3)
	permit := func(commands ...any) {
		for _, s := range servers {
			_, err := s.Do("ACL", append([]any{"SETUSER", "locker", "reset", "on", "nopass", "~*", "&*"}, commands...)...)
			require.NoError(t, err)
		}
	}
	permit("+hello", "+auth", "+client", "+ping")
	tries := 0
	var urls []string
	for _, s := range servers {
		urls = append(urls, strings.Replace(s.URL(), "redis://", "redis://locker:any@", 1))
	}
	locker, err := redlock.Open(urls, redlock.TokenSource(func() (string, error) {
		if tries++; tries == 4 {
			permit("+@all")
		}
		return fmt.Sprint("try ", tries), nil
	}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locker.Close()) })
	s, err := certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, locker)
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	err = s.Lock(short, "x")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.NoError(t, s.Lock(t.Context(), "x"))
	require.NoError(t, s.Unlock(t.Context(), "x"))
}

func TestLock_ReturnsWhenItsContextEnds(t *testing.T) {
	instances(t, func(t *testing.T, _ *redlocktest.Cluster, a, b *certmagiclock.Storage) {
		require.NoError(t, a.Lock(t.Context(), "x"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := b.Lock(ctx, "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, b.Unlock(t.Context(), "x"), redlock.ErrNotHeld)
		require.NoError(t, a.Unlock(t.Context(), "x"))
	})
}

func TestTryLock_AMissingMajorityIsAnErrorAndAHolderIsNot(t *testing.T) {
	instances(t, func(t *testing.T, cluster *redlocktest.Cluster, a, _ *certmagiclock.Storage) {
		release := cluster.Hold("x")
		require.False(t, try(t, a, "x"))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		ok, err := a.TryLock(ended, "x")
		require.False(t, ok)
		require.ErrorIs(t, err, context.Canceled)
		release()
		cluster.Stop(0, 1)
		ok, err = a.TryLock(t.Context(), "x")
		require.False(t, ok)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

func TestUnlock_ReportsALockThatWasLost(t *testing.T) {
	instances(t, func(t *testing.T, cluster *redlocktest.Cluster, a, _ *certmagiclock.Storage) {
		require.NoError(t, a.Lock(t.Context(), "x"))
		cluster.Steal("x")
		cluster.Advance(time.Minute)
		require.ErrorIs(t, a.Unlock(t.Context(), "x"), redlock.ErrGone)
		err := a.Unlock(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrNotHeld)
		require.ErrorContains(t, err, `"x"`)
		require.ErrorIs(t, a.RenewLockLease(t.Context(), "x", time.Minute), redlock.ErrNotHeld)
	})
}

// certmagic logs an error of Unlock, and keeps the lock among those that CleanUpOwnLocks releases.
func TestUnlock_AReleaseThatTooFewServersConfirmIsNoError(t *testing.T) {
	instances(t, func(t *testing.T, cluster *redlocktest.Cluster, a, _ *certmagiclock.Storage) {
		require.NoError(t, a.Lock(t.Context(), "x"))
		cluster.Stop(0, 1)
		require.NoError(t, a.Unlock(t.Context(), "x"))
		require.NoError(t, a.Wait(t.Context()))
		cluster.Start(0, 1)
		require.NoError(t, a.Lock(t.Context(), "x"))
		cluster.Stop(0, 1)
		cluster.Advance(time.Minute)
		require.ErrorIs(t, a.Unlock(t.Context(), "x"), redlock.ErrExpired)
	})
}

// Who lost the lock does not release it under who has it now.
func TestUnlock_TheFirstOneIsForTheLockThatWasLost(t *testing.T) {
	instances(t, func(t *testing.T, cluster *redlocktest.Cluster, a, b *certmagiclock.Storage) {
		require.NoError(t, a.Lock(t.Context(), "x"))
		cluster.Delete("x")
		cluster.Advance(time.Minute)
		require.NoError(t, a.Lock(t.Context(), "x"))
		require.ErrorIs(t, a.Unlock(t.Context(), "x"), redlock.ErrGone)
		require.False(t, try(t, b, "x"))
		require.NoError(t, a.Unlock(t.Context(), "x"))
		require.True(t, try(t, b, "x"))
	})
}

func TestRenewLockLease_WaitsForALockThatWasLost(t *testing.T) {
	instances(t, func(t *testing.T, cluster *redlocktest.Cluster, a, b *certmagiclock.Storage) {
		require.NoError(t, a.Lock(t.Context(), "x"))
		release := cluster.Steal("x")
		cluster.Advance(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := a.RenewLockLease(ctx, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrGone)
		require.ErrorIs(t, err, redlock.ErrTaken)
		release()
		require.NoError(t, a.RenewLockLease(t.Context(), "x", time.Minute))
		require.False(t, try(t, b, "x"))
		require.NoError(t, a.Unlock(t.Context(), "x"))
		require.True(t, try(t, b, "x"))
		require.ErrorIs(t, a.Unlock(t.Context(), "x"), redlock.ErrNotHeld)
	})
}

// CleanUpOwnLocks calls Unlock at any time.
func TestRenewLockLease_EndsWithUnlockAndLeavesNoLock(t *testing.T) {
	instances(t, func(t *testing.T, cluster *redlocktest.Cluster, a, b *certmagiclock.Storage) {
		require.NoError(t, a.Lock(t.Context(), "x"))
		release := cluster.Steal("x")
		cluster.Advance(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		renewed := make(chan error, 1)
		go func() { renewed <- a.RenewLockLease(ctx, "x", time.Minute) }()
		synctest.Wait()
		require.ErrorIs(t, a.Unlock(t.Context(), "x"), redlock.ErrGone)
		require.ErrorIs(t, <-renewed, redlock.ErrNotHeld)
		require.NoError(t, ctx.Err(), "it ends with Unlock, and not later")
		release()
		require.True(t, try(t, b, "x"))
	})
}

// The lock is handed off to RenewLockLease at the moment of Unlock.
func TestRenewLockLease_ALockThatComesWithUnlockIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker(redlock.WithLocalHandoff(time.Second))
		var storages [2]*certmagiclock.Storage
		for i := range storages {
			s, err := certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, locker)
			require.NoError(t, err)
			storages[i] = s
		}
		a, b := storages[0], storages[1]
		for range 50 {
			require.NoError(t, a.Lock(t.Context(), "x"))
			cluster.Delete("x")
			cluster.Advance(time.Minute)
			require.NoError(t, b.Lock(t.Context(), "x"))
			renewed := make(chan error, 1)
			go func() { renewed <- a.RenewLockLease(t.Context(), "x", time.Minute) }()
			synctest.Wait()
			require.NoError(t, b.Unlock(t.Context(), "x"))
			if err := a.Unlock(t.Context(), "x"); err == nil { // of the lock that came before it
				require.NoError(t, <-renewed)
			} else {
				require.ErrorIs(t, err, redlock.ErrGone)
				require.ErrorIs(t, <-renewed, redlock.ErrNotHeld)
			}
			require.NoError(t, a.Wait(t.Context()))
			require.True(t, try(t, b, "x"))
			require.NoError(t, b.Unlock(t.Context(), "x"))
		}
	})
}

// With RenewFor another instance has its turn between two attempts of certmagic, and the first one waits for the lock again.
func TestRenewLockLease_ALockThatHasAnEndGoesToOthersInBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var storages [2]*certmagiclock.Storage
		for i := range storages {
			s, err := certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, cluster.Locker(), redlock.RenewFor(time.Minute))
			require.NoError(t, err)
			storages[i] = s
		}
		a, b := storages[0], storages[1]
		require.NoError(t, a.Lock(t.Context(), "x"))
		cluster.Advance(2 * time.Minute)
		require.True(t, try(t, b, "x"))
		renewed := make(chan error, 1)
		go func() { renewed <- a.RenewLockLease(t.Context(), "x", time.Minute) }()
		cluster.Advance(10 * time.Second)
		require.Empty(t, renewed)
		require.NoError(t, b.Unlock(t.Context(), "x"))
		require.NoError(t, <-renewed)
		require.False(t, try(t, b, "x"))
		require.NoError(t, a.Unlock(t.Context(), "x"))
	})
}

func TestWait_ReturnsWhenNoLockIsHeld(t *testing.T) {
	instances(t, func(t *testing.T, _ *redlocktest.Cluster, a, b *certmagiclock.Storage) {
		require.NoError(t, a.Wait(t.Context()))
		require.NoError(t, a.Lock(t.Context(), "x"))
		require.NoError(t, a.Lock(t.Context(), "y"))
		require.NoError(t, b.Wait(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, a.Wait(ctx), context.DeadlineExceeded)
		waited := make(chan error, 1)
		go func() { waited <- a.Wait(t.Context()) }()
		require.NoError(t, a.Unlock(t.Context(), "x"))
		synctest.Wait()
		require.Empty(t, waited)
		require.NoError(t, a.Unlock(t.Context(), "y"))
		require.NoError(t, <-waited)
	})
}

func TestStorage_EverythingButTheLocksIsThatOfTheWrappedStorage(t *testing.T) {
	instances(t, func(t *testing.T, _ *redlocktest.Cluster, a, b *certmagiclock.Storage) {
		require.NoError(t, a.Store(t.Context(), "dir/key", []byte("value")))
		require.True(t, b.Exists(t.Context(), "dir/key"))
		value, err := b.Load(t.Context(), "dir/key")
		require.NoError(t, err)
		require.Equal(t, "value", string(value))
		info, err := b.Stat(t.Context(), "dir/key")
		require.NoError(t, err)
		require.EqualValues(t, 5, info.Size)
		require.NoError(t, a.Lock(t.Context(), "x"))
		keys, err := b.List(t.Context(), "", true)
		require.NoError(t, err)
		require.Equal(t, []string{"dir", "dir/key"}, keys, "there is no file of a lock")
		require.NoError(t, b.Delete(t.Context(), "dir"))
		require.False(t, a.Exists(t.Context(), "dir/key"))
		require.IsType(t, &certmagic.FileStorage{}, a.Unwrap())
		require.Contains(t, a.String(), "certmagiclock over FileStorage:/")
	})
}

func TestNew_RefusesWhatItCannotWrap(t *testing.T) {
	locker, files := redlocktest.New(t).Locker(), &certmagic.FileStorage{Path: "files"}
	wrapped, err := certmagiclock.New(files, locker)
	require.NoError(t, err)
	for says, args := range map[string]struct {
		storage certmagic.Storage
		locker  *redlock.Locker
	}{
		"nil storage": {nil, locker}, "nil locker": {files, nil}, "FileStorage:files has these locks already": {wrapped, locker},
	} {
		s, err := certmagiclock.New(args.storage, args.locker)
		require.Nil(t, s)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, says)
	}
	for _, opt := range []redlock.LockOption{redlock.TTL(0), redlock.Shared(), redlock.Slots(2), redlock.Reentrant()} {
		_, err := certmagiclock.New(files, locker, opt)
		require.ErrorIs(t, err, redlock.ErrInvalid)
	}
}
