package integration_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/testdatabase"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// pgxTx is a transaction of pgx for Table.Check.
type pgxTx struct{ pgx.Tx }

func (t pgxTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := t.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

func (t pgxTx) Commit() error   { return t.Tx.Commit(context.Background()) }
func (t pgxTx) Rollback() error { return t.Tx.Rollback(context.Background()) }

// native connects with pgx alone to the database that db is on.
func (db database) native(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), testdatabase.PostgreSQL(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

func TestPgx_ChecksInItsOwnTransactions(t *testing.T) {
	db := open(t, fence.PostgreSQL, "pgx", testdatabase.PostgreSQL(t))
	account := db.create(t, "account", "id bigint PRIMARY KEY, balance bigint NOT NULL")
	db.exec(t, "INSERT INTO "+account+" VALUES (7, 100)")
	conn := db.native(t)
	withdraw := func(number uint64, end func(pgxTx) error) error {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context()) //nolint:errcheck // does nothing after Commit
		if err := db.table.Check(t.Context(), pgxTx{tx}, "account-7", number); err != nil {
			return err
		}
		_, err = tx.Exec(t.Context(), "UPDATE "+account+" SET balance = balance - 10 WHERE id = 7")
		require.NoError(t, err)
		return end(pgxTx{tx})
	}
	require.NoError(t, withdraw(33, pgxTx.Commit))
	require.NoError(t, withdraw(33, pgxTx.Commit))
	require.NoError(t, withdraw(35, pgxTx.Rollback), "which takes back the fence")
	require.NoError(t, withdraw(34, pgxTx.Commit))
	db.requireStale(t, withdraw(33, pgxTx.Commit), "account-7", 33, 34)
	require.Equal(t, 70, count(t, db, "SELECT balance FROM "+account))
}

func TestPgx_ChecksAColumn(t *testing.T) {
	db := open(t, fence.PostgreSQL, "pgx", testdatabase.PostgreSQL(t))
	account := db.create(t, "account", "id bigint PRIMARY KEY, balance bigint NOT NULL, fence bigint NOT NULL DEFAULT 0")
	db.exec(t, "INSERT INTO "+account+" (id, balance) VALUES (7, 100)")
	conn := db.native(t)
	deposit := func(query string, number uint64) error {
		tag, err := conn.Exec(t.Context(), query, 10, number, 7)
		return fence.CheckUpdated(driver.RowsAffected(tag.RowsAffected()), err)
	}
	query := "UPDATE " + account + " SET balance = balance + $1, fence = $2 WHERE id = $3 AND fence <= $2"
	require.NoError(t, deposit(query, 34))
	require.ErrorIs(t, deposit(query, 33), fence.ErrStale)
	err := deposit("no SQL", 34)
	require.ErrorContains(t, err, "SQLSTATE")
	require.NotErrorIs(t, err, fence.ErrStale)
	require.Equal(t, 110, count(t, db, "SELECT balance FROM "+account))
}
