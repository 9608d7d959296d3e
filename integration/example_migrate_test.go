package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/testdatabase"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// migrations[i] leads from version i of the schema to version i + 1. None is ever changed.
var migrations = []string{
	"CREATE TABLE customer (id bigint PRIMARY KEY, name varchar(100))",
	"ALTER TABLE customer ADD COLUMN email varchar(100)",
	"CREATE INDEX customer_email ON customer (email)",
}

// migrate brings the schema up to date. Every instance of a service calls it at its start. locker
// has redlock.WithFencing.
func migrate(ctx context.Context, locker *redlock.Locker, db *sql.DB, table *fence.Table) error {
	return locker.Do(ctx, "migrate-shop", func(ctx context.Context, lock *redlock.Lock) error {
		for _, statement := range []string{
			table.Create(),
			"CREATE TABLE IF NOT EXISTS schema_version (version integer PRIMARY KEY)",
		} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		for i, statement := range migrations {
			if err := apply(ctx, db, table, lock, i+1, statement); err != nil {
				return fmt.Errorf("migration to version %d: %w", i+1, err)
			}
		}
		return nil
	}, redlock.RenewFor(time.Hour))
}

// apply does one migration, unless it was done before, in a transaction of its own.
func apply(ctx context.Context, db *sql.DB, table *fence.Table, lock *redlock.Lock,
	version int, statement string,
) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := table.Check(ctx, tx, "schema", lock.Fence()); err != nil {
		return err
	}
	var done int
	row := tx.QueryRowContext(ctx, "SELECT count(*) FROM schema_version WHERE version = $1", version)
	if err := row.Scan(&done); err != nil || done > 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO schema_version (version) VALUES ($1)", version); err != nil {
		return err
	}
	return tx.Commit()
}

// onNumbered runs a test on the databases with transactions for all statements and with placeholders like $1, each time
// with no table but that of the fences.
func onNumbered(t *testing.T, test func(t *testing.T, db database)) {
	t.Run("PostgreSQL", func(t *testing.T) {
		dsn := testdatabase.PostgreSQL(t)
		own := fmt.Sprintf("example_%d", tables.Add(1))
		open(t, fence.PostgreSQL, "pgx", dsn).exec(t, "CREATE SCHEMA "+own)
		test(t, open(t, fence.PostgreSQL, "pgx", dsn+"&search_path="+own))
	})
	t.Run("SQLite", func(t *testing.T) {
		file := "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)"
		test(t, open(t, fence.SQLite, "sqlite", file))
	})
}

func TestExampleMigrate_AppliesEachMigrationOnceHoweverManyInstancesStart(t *testing.T) {
	onNumbered(t, func(t *testing.T, db database) {
		instances := lockers(t, 4)
		late := over(t, instances[0], "migrate-shop")
		var starts sync.WaitGroup
		for _, instance := range instances {
			starts.Go(func() { assert.NoError(t, migrate(t.Context(), instance, db.DB, db.table)) })
		}
		starts.Wait()
		require.Equal(t, len(migrations), count(t, db, "SELECT count(*) FROM schema_version"))
		require.Zero(t, count(t, db, "SELECT count(email) FROM customer"))

		err := apply(t.Context(), db.DB, db.table, late, len(migrations)+1, "DROP TABLE customer")
		require.ErrorIs(t, err, fence.ErrStale)
		require.Zero(t, count(t, db, "SELECT count(*) FROM customer"))
	})
}
