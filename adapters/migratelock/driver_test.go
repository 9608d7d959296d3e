package migratelock_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	pgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/database/postgres"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/migratelock"
	"github.com/quorumlock/quorumlock/internal/dev/testdatabase"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/redlocktest"
)

const key = migratelock.NamePrefix + "shop"

func newDriver(t *testing.T, driver database.Driver, locker *redlock.Locker, opts ...migratelock.Option) *migratelock.Driver {
	t.Helper()
	d, err := migratelock.New(driver, locker, "shop", opts...)
	require.NoError(t, err)
	return d
}

func newMigrate(t *testing.T, driver database.Driver) *migrate.Migrate {
	t.Helper()
	files, err := iofs.New(fstest.MapFS{
		"1_table.up.sql": {Data: []byte("CREATE TABLE migrated (name TEXT);")},
		"2_row.up.sql":   {Data: []byte("INSERT INTO migrated VALUES ('once');")},
	}, ".")
	require.NoError(t, err)
	m, err := migrate.NewWithInstance("iofs", files, "shop", driver)
	require.NoError(t, err)
	return m
}

// gate is a driver whose first migration waits.
type gate struct {
	database.Driver
	name   string
	began  chan string
	resume chan struct{}
}

func (g gate) SetVersion(version int, dirty bool) error {
	if version == 1 && dirty {
		g.began <- g.name
		<-g.resume
	}
	return g.Driver.SetVersion(version, dirty)
}

func eachDatabase(t *testing.T, test func(t *testing.T, driver, dsn string, wrap func(*sql.DB) (database.Driver, error))) {
	t.Run("SQLite", func(t *testing.T) {
		dsn := "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(60000)"
		test(t, "sqlite", dsn, func(db *sql.DB) (database.Driver, error) { return sqlite.WithInstance(db, &sqlite.Config{}) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		test(t, "pgx", testdatabase.PostgreSQL(t), func(db *sql.DB) (database.Driver, error) { return pgx.WithInstance(db, &pgx.Config{}) })
	})
}

// The other instance waits for the lock while the first is in its migration, and a server dies. Then it finds nothing to do.
func TestDriver_OfTwoInstancesThatStartTheSameMigrationsAtOnceOneRunsThem(t *testing.T) {
	eachDatabase(t, func(t *testing.T, driver, dsn string, wrap func(*sql.DB) (database.Driver, error)) {
		servers := testredis.Real(t, 5)
		began, resume := make(chan string, 2), make(chan struct{})
		type outcome struct {
			name string
			err  error
		}
		outcomes := make(chan outcome, 2)
		for _, name := range []string{"one", "other"} {
			locker, err := redlock.Open(testredis.URLs(servers), pool.WithTimeout(5*time.Second))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, locker.Close()) })
			db, err := sql.Open(driver, dsn)
			require.NoError(t, err)
			inner, err := wrap(db)
			require.NoError(t, err)
			m := newMigrate(t, newDriver(t, gate{inner, name, began, resume}, locker, migratelock.Wait(time.Minute)))
			m.LockTimeout = 2 * time.Minute
			t.Cleanup(func() {
				source, database := m.Close()
				require.NoError(t, errors.Join(source, database))
			})
			go func() { outcomes <- outcome{name, m.Up()} }()
		}
		first := <-began
		servers[1].Stop()
		require.Eventually(t, func() bool { // the other waits for its turn: it has subscribed
			channels, err := servers[0].Do("PUBSUB", "CHANNELS")
			list, _ := channels.([]any)
			return err == nil && len(list) > 0
		}, 30*time.Second, 10*time.Millisecond)
		close(resume)
		for range 2 {
			if o := <-outcomes; o.name == first {
				require.NoError(t, o.err)
			} else {
				require.ErrorIs(t, o.err, migrate.ErrNoChange)
			}
		}
		require.Empty(t, began)
		db, err := sql.Open(driver, dsn)
		require.NoError(t, err)
		defer db.Close()
		var rows int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM migrated").Scan(&rows))
		require.Equal(t, 1, rows)
	})
}

func newStub(t *testing.T) database.Driver {
	t.Helper()
	s, err := stub.WithInstance(nil, &stub.Config{})
	require.NoError(t, err)
	return s
}

// The danger: a lock that comes after migrate has given up, and that nobody releases.
func TestDriver_GivesUpBeforeMigrateDoesAndLeavesNoLockBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		release := cluster.Hold(key)
		m := newMigrate(t, newDriver(t, newStub(t), cluster.Locker()))
		err := m.Up()
		require.ErrorIs(t, err, database.ErrLocked)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NotErrorIs(t, err, migrate.ErrLockTimeout)
		release()
		cluster.Advance(time.Minute)
		lock, err := cluster.Locker().TryLock(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, m.Up(), "it works again")
	})
}

func TestDriver_ReleasesALockThatItGetsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		slow := redlock.TokenSource(func() (string, error) {
			<-time.After(20 * time.Second)
			return "slow", nil
		})
		m := newMigrate(t, newDriver(t, newStub(t), cluster.Locker(), migratelock.LockOptions(slow)))
		require.ErrorIs(t, m.Up(), migrate.ErrLockTimeout)
		cluster.Advance(time.Minute)
		lock, err := cluster.Locker().TryLock(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

func TestDriver_CloseReleasesTheLockAndEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		one := newDriver(t, newStub(t), cluster.Locker())
		other := newDriver(t, newStub(t), cluster.Locker())
		require.NoError(t, one.Lock())
		require.ErrorIs(t, one.Lock(), database.ErrLocked)
		waited := make(chan error, 1)
		go func() { waited <- other.Lock() }()
		synctest.Wait()
		require.ErrorIs(t, other.Lock(), database.ErrLocked)
		require.NoError(t, other.Close())
		require.Error(t, <-waited)
		require.NoError(t, one.Close())
		require.ErrorIs(t, one.Unlock(), database.ErrNotLocked)
		lock, err := cluster.Locker().TryLock(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

// slow is a driver whose Run lasts until resume is closed. So does its Close, if it waits: that of PostgreSQL does, that of SQLite not.
type slow struct {
	database.Driver
	waits         bool
	began, resume chan struct{}
}

func (s slow) Run(io.Reader) error {
	close(s.began)
	<-s.resume
	return nil
}

func (s slow) Close() error {
	if s.waits {
		<-s.resume
	}
	return s.Driver.Close()
}

// The danger: another instance that finds the lock free, and migrates beside a statement that still runs.
func TestDriver_CloseKeepsTheLockWhileAMigrationRunsAndLetsNoneBegin(t *testing.T) {
	for _, waits := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			cluster := redlocktest.New(t)
			inner := slow{newStub(t), waits, make(chan struct{}), make(chan struct{})}
			d := newDriver(t, inner, cluster.Locker())
			other := newDriver(t, newStub(t), cluster.Locker(), migratelock.Wait(0))
			require.NoError(t, d.Lock())
			require.NoError(t, d.SetVersion(1, true))
			ran, closed := make(chan error, 1), make(chan error, 1)
			go func() { ran <- d.Run(strings.NewReader("")) }()
			<-inner.began
			go func() { closed <- d.Close() }()
			synctest.Wait()
			require.Empty(t, closed)
			require.ErrorIs(t, other.Lock(), redlock.ErrTaken, "Close of the driver waits: %v", waits)
			close(inner.resume)
			require.NoError(t, <-ran)
			require.NoError(t, <-closed)
			require.NoError(t, other.Lock())
			require.NoError(t, other.Unlock())
			require.ErrorContains(t, d.Run(nil), "closed")
			require.ErrorContains(t, d.SetVersion(2, true), "closed")
			require.ErrorContains(t, d.Drop(), "closed")
		})
	}
}

func TestDriver_ALossIsToldAndIsAnErrorOfTheMigration(t *testing.T) {
	cluster := redlocktest.New(t)
	told := make(chan error, 1)
	began, resume := make(chan string, 1), make(chan struct{})
	tell := migratelock.OnLoss(func(err error) { told <- err })
	inner := newStub(t)
	m := newMigrate(t, newDriver(t, gate{inner, "one", began, resume}, cluster.Locker(), tell, migratelock.LockOptions(redlock.TTL(300*time.Millisecond))))
	ended := make(chan error, 1)
	go func() { ended <- m.Up() }()
	<-began
	cluster.Steal(key)
	require.ErrorIs(t, <-told, redlock.ErrGone)
	close(resume)
	require.ErrorIs(t, <-ended, redlock.ErrGone)
	version, dirty, err := inner.Version()
	require.NoError(t, err)
	require.True(t, dirty)
	require.Equal(t, 1, version, "the second migration has not begun")
	require.Empty(t, inner.(*stub.Stub).MigrationSequence, "nor has the first run")
	require.ErrorIs(t, m.Up(), migrate.ErrLocked, "as the documentation says")
}

func TestDriver_ChangesNothingAfterALossThatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		inner := newStub(t)
		d := newDriver(t, inner, cluster.Locker())
		require.NoError(t, d.Lock())
		require.NoError(t, d.SetVersion(1, true))
		require.NoError(t, d.Run(strings.NewReader("first")))
		of := inner.(*stub.Stub)
		cluster.Steal(key)
		cluster.Advance(time.Minute)
		require.ErrorIs(t, d.SetVersion(1, false), redlock.ErrGone)
		require.ErrorIs(t, d.SetVersion(2, true), redlock.ErrGone)
		require.ErrorIs(t, d.Run(strings.NewReader("second")), redlock.ErrGone)
		require.ErrorIs(t, d.Drop(), redlock.ErrGone)
		version, dirty, err := inner.Version()
		require.NoError(t, err)
		require.True(t, dirty)
		require.Equal(t, 1, version)
		require.Equal(t, []string{"first"}, of.MigrationSequence)
		require.ErrorIs(t, d.Unlock(), redlock.ErrGone)
	})
}

func TestDriver_ALossThatOnlyTheReleaseFindsIsAnErrorOfUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		d := newDriver(t, newStub(t), cluster.Locker())
		require.NoError(t, d.Lock())
		cluster.Advance(time.Second)
		cluster.Steal(key)
		require.ErrorIs(t, d.Unlock(), redlock.ErrNotHeld)
		require.ErrorIs(t, d.Unlock(), database.ErrNotLocked)
	})
}

func TestDriver_AReleaseThatTooFewServersConfirmIsNoErrorUnlessTheLockHadExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		d := newDriver(t, newStub(t), cluster.Locker())
		require.NoError(t, d.Lock())
		cluster.Advance(time.Second)
		cluster.Stop(0, 1)
		require.NoError(t, d.Unlock())
		err := d.Lock()
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, database.ErrLocked)
		cluster.Start(0, 1)
		require.NoError(t, d.Lock())
		cluster.Stop(0, 1)
		cluster.Advance(10 * time.Second)
		require.ErrorIs(t, d.Unlock(), redlock.ErrExpired)
	})
}

func TestDriver_OpenWrapsWhatItOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		one, err := newDriver(t, newStub(t), cluster.Locker()).Open("stub://")
		require.NoError(t, err)
		require.NoError(t, one.Lock())
		require.ErrorIs(t, newDriver(t, newStub(t), cluster.Locker(), migratelock.Wait(0)).Lock(), redlock.ErrTaken)
		require.NoError(t, one.Close())
		_, err = newDriver(t, broken{}, cluster.Locker()).Open("stub://")
		require.ErrorIs(t, err, errBroken)
	})
}

// migrate finds a driver by the scheme of the URL, and drivers look at the scheme.
func TestDriver_OpenOfEachDriverByTheURLOfItsRegisteredName(t *testing.T) {
	postgreSQL := strings.TrimPrefix(testdatabase.PostgreSQL(t), "postgres:") + "&sslmode=disable&"
	for name, of := range map[string]struct {
		driver database.Driver
		rest   string
	}{
		"sqlite":   {new(sqlite.Sqlite), "//" + filepath.Join(t.TempDir(), "db") + "?"},
		"pgx5":     {new(pgx.Postgres), postgreSQL},
		"postgres": {new(postgres.Postgres), postgreSQL},
		"mysql":    {new(mysql.Mysql), "//" + testdatabase.MariaDB(t) + "?"},
	} {
		t.Run(name, func(t *testing.T) {
			database.Register("redlock+"+name, newDriver(t, of.driver, redlocktest.New(t).Locker()))
			files, err := iofs.New(fstest.MapFS{"1_table.up.sql": {Data: []byte("CREATE TABLE of_" + name + " (name TEXT);")}}, ".")
			require.NoError(t, err)
			m, err := migrate.NewWithSourceInstance("iofs", files, "redlock+"+name+":"+of.rest+"x-migrations-table=versions_"+name)
			require.NoError(t, err)
			require.NoError(t, m.Up())
			version, dirty, err := m.Version()
			require.NoError(t, err)
			require.False(t, dirty)
			require.EqualValues(t, 1, version)
			source, driver := m.Close()
			require.NoError(t, errors.Join(source, driver))
		})
	}
}

var errBroken = fmt.Errorf("broken")

type broken struct{ database.Driver }

func (broken) Open(string) (database.Driver, error) { return nil, errBroken }

func TestNew_RefusesWhatIsOutOfRange(t *testing.T) {
	locker := redlocktest.New(t).Locker()
	for _, name := range []string{"", "new\nline", strings.Repeat("x", 505)} {
		_, err := migratelock.New(newStub(t), locker, name)
		require.ErrorIs(t, err, redlock.ErrInvalid, "%q", name)
	}
	_, err := migratelock.New(newStub(t), locker, strings.Repeat("x", 504), migratelock.OnLoss(nil), migratelock.Wait(redlock.NoLimit))
	require.NoError(t, err)
	_, err = migratelock.New(nil, locker, "shop")
	require.ErrorIs(t, err, redlock.ErrInvalid)
	_, err = migratelock.New(newStub(t), nil, "shop")
	require.ErrorIs(t, err, redlock.ErrInvalid)
	for _, opt := range []migratelock.Option{
		nil, migratelock.Wait(-1), migratelock.LockOptions(redlock.TTL(0)), migratelock.LockOptions(redlock.Shared()),
		migratelock.LockOptions(redlock.Slots(2)), migratelock.LockOptions(redlock.Reentrant()),
	} {
		_, err = migratelock.New(newStub(t), locker, "shop", opt)
		require.ErrorIs(t, err, redlock.ErrInvalid)
	}
}
