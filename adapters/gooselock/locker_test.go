package gooselock_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/quorumlock/quorumlock/adapters/gooselock"
	"github.com/quorumlock/quorumlock/internal/dev/testdatabase"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/redlocktest"
)

func newLocker(t *testing.T, locker *redlock.Locker, opts ...gooselock.Option) *gooselock.Locker {
	t.Helper()
	l, err := gooselock.New(locker, "shop", opts...)
	require.NoError(t, err)
	return l
}

// instance is a program that migrates.
type instance struct {
	db       *sql.DB
	provider *goose.Provider
}

// migrations are without a transaction, so that two that run at once would both take effect.
type migrations struct {
	began  chan string   // gets the name of the instance whose first migration begins
	resume chan struct{} // closed when that may go on
}

func (m *migrations) newInstance(t *testing.T, name string, dialect goose.Dialect, driver, dsn string, opts ...goose.ProviderOption) instance {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	step := func(version int64, query string, wait bool) *goose.Migration {
		return goose.NewGoMigration(version, &goose.GoFunc{RunDB: func(ctx context.Context, db *sql.DB) error {
			if wait {
				m.began <- name
				select {
				case <-m.resume:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			_, err := db.ExecContext(ctx, query)
			return err
		}}, nil)
	}
	opts = append(opts, goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(
		step(1, "CREATE TABLE migrated (name TEXT)", true),
		step(2, "INSERT INTO migrated VALUES ('once')", false)))
	provider, err := goose.NewProvider(dialect, db, nil, opts...)
	require.NoError(t, err)
	return instance{db, provider}
}

func eachDatabase(t *testing.T, test func(t *testing.T, dialect goose.Dialect, driver, dsn string)) {
	t.Run("SQLite", func(t *testing.T) {
		test(t, goose.DialectSQLite3, "sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=busy_timeout(60000)")
	})
	t.Run("PostgreSQL", func(t *testing.T) { test(t, goose.DialectPostgres, "pgx", testdatabase.PostgreSQL(t)) })
}

func open(t *testing.T, servers []*testredis.Process) *redlock.Locker {
	t.Helper()
	locker, err := redlock.Open(testredis.URLs(servers), pool.WithTimeout(5*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locker.Close()) })
	return locker
}

// The other instance waits for the lock while the first runs its migration, and a server dies. Then it finds all migrations done.
func TestLocker_OfTwoInstancesThatStartTheSameMigrationsAtOnceOneRunsThem(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dialect goose.Dialect, driver, dsn string) {
		servers := testredis.Real(t, 5)
		m := &migrations{began: make(chan string, 2), resume: make(chan struct{})}
		type outcome struct {
			name    string
			results []*goose.MigrationResult
			err     error
		}
		outcomes := make(chan outcome, 2)
		var instances sync.WaitGroup
		for _, name := range []string{"one", "other"} {
			i := m.newInstance(t, name, dialect, driver, dsn, goose.WithLocker(newLocker(t, open(t, servers))))
			instances.Go(func() {
				results, err := i.provider.Up(t.Context())
				outcomes <- outcome{name, results, err}
			})
		}
		first := <-m.began
		servers[1].Stop()
		waitForWaiter(t, servers)
		close(m.resume)
		for range 2 {
			o := <-outcomes
			require.NoError(t, o.err, o.name)
			if o.name == first {
				require.Len(t, o.results, 2)
			} else {
				require.Empty(t, o.results)
			}
		}
		instances.Wait()
		require.Empty(t, m.began)
		db, err := sql.Open(driver, dsn)
		require.NoError(t, err)
		defer db.Close()
		var rows int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM migrated").Scan(&rows))
		require.Equal(t, 1, rows)
	})
}

// waitForWaiter returns when an instance waits for a turn on a server: it has subscribed there.
func waitForWaiter(t *testing.T, servers []*testredis.Process) {
	t.Helper()
	require.Eventually(t, func() bool {
		channels, err := servers[0].Do("PUBSUB", "CHANNELS")
		list, _ := channels.([]any)
		return err == nil && len(list) > 0
	}, 30*time.Second, 10*time.Millisecond)
}

func TestLocker_ALossEndsTheMigrationAndIsAnErrorOfIt(t *testing.T) {
	cluster := redlocktest.New(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	locker := newLocker(t, cluster.Locker(), gooselock.OnLoss(cancel), gooselock.LockOptions(redlock.TTL(300*time.Millisecond)))
	m := &migrations{began: make(chan string, 1)}
	dsn := "file:" + filepath.Join(t.TempDir(), "db")
	i := m.newInstance(t, "one", goose.DialectSQLite3, "sqlite", dsn, goose.WithLocker(locker))
	ended := make(chan error, 1)
	go func() {
		_, err := i.provider.Up(ctx)
		ended <- err
	}()
	<-m.began
	cluster.Steal(gooselock.NamePrefix + "shop")
	select {
	case err := <-ended:
		require.ErrorIs(t, err, redlock.ErrGone)
	case <-time.After(30 * time.Second):
		cancel(nil)
		require.Error(t, <-ended)
		require.Fail(t, "the migration goes on after the loss")
	}
	require.ErrorIs(t, context.Cause(ctx), redlock.ErrGone)
}

func TestLocker_ALossThatOnlyTheReleaseFindsIsAnErrorOfTheMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := newLocker(t, cluster.Locker())
		require.NoError(t, locker.Lock(t.Context(), nil))
		cluster.Advance(time.Second)
		cluster.Steal(gooselock.NamePrefix + "shop")
		require.ErrorIs(t, locker.Unlock(t.Context(), nil), redlock.ErrNotHeld)
		require.ErrorIs(t, locker.Unlock(t.Context(), nil), redlock.ErrReleased)
	})
}

func TestLocker_AReleaseThatTooFewServersConfirmIsNoErrorUnlessTheLockHadExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := newLocker(t, cluster.Locker())
		require.NoError(t, locker.Lock(t.Context(), nil))
		cluster.Advance(time.Second)
		cluster.Stop(0, 1)
		require.NoError(t, locker.Unlock(t.Context(), nil))
		cluster.Start(0, 1)
		require.NoError(t, locker.Lock(t.Context(), nil))
		cluster.Stop(0, 1)
		cluster.Advance(10 * time.Second)
		require.ErrorIs(t, locker.Unlock(t.Context(), nil), redlock.ErrExpired)
	})
}

// The danger: the Unlock of one that has lost the lock releases that of the other.
func TestLocker_OfTwoProvidersThatShareItOneWorksAtATimeAlsoAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := newLocker(t, cluster.Locker())
		require.NoError(t, locker.Lock(t.Context(), nil))
		cluster.Delete(gooselock.NamePrefix + "shop")
		cluster.Advance(10 * time.Second)
		locked := make(chan error, 1)
		go func() { locked <- locker.Lock(t.Context(), nil) }()
		synctest.Wait()
		require.Empty(t, locked)
		require.ErrorIs(t, locker.Unlock(t.Context(), nil), redlock.ErrGone)
		require.NoError(t, <-locked)
		require.NoError(t, locker.Unlock(t.Context(), nil))
	})
}

func TestLocker_WaitsUntilTheContextOrMaxWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		cluster.Hold(gooselock.NamePrefix + "shop")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := newLocker(t, cluster.Locker()).Lock(ctx, nil)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		limited := newLocker(t, cluster.Locker(), gooselock.LockOptions(redlock.MaxWait(time.Second)))
		require.ErrorIs(t, limited.Lock(t.Context(), nil), redlock.ErrTaken)
		require.ErrorIs(t, limited.Lock(t.Context(), nil), redlock.ErrTaken, "not blocked by the attempt before")
	})
}

func TestNew_RefusesWhatIsOutOfRange(t *testing.T) {
	locker := redlocktest.New(t).Locker()
	for _, name := range []string{"", "new\nline", strings.Repeat("x", 507)} {
		_, err := gooselock.New(locker, name)
		require.ErrorIs(t, err, redlock.ErrInvalid, "%q", name)
	}
	_, err := gooselock.New(locker, strings.Repeat("x", 506), gooselock.OnLoss(nil))
	require.NoError(t, err)
	_, err = gooselock.New(nil, "shop")
	require.ErrorIs(t, err, redlock.ErrInvalid)
	_, err = gooselock.New(locker, "shop", nil)
	require.ErrorIs(t, err, redlock.ErrInvalid)
	for _, opt := range []redlock.LockOption{redlock.TTL(0), redlock.Shared(), redlock.Slots(2), redlock.Reentrant()} {
		_, err = gooselock.New(locker, "shop", gooselock.LockOptions(opt))
		require.ErrorIs(t, err, redlock.ErrInvalid)
	}
}
