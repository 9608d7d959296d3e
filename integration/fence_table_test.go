package integration_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

const highest uint64 = 1<<53 - 1

// pass is a transaction that only checks.
func (db database) pass(t *testing.T, resource string, token uint64) error {
	t.Helper()
	tx := db.begin(t, sql.LevelDefault)
	if err := db.table.Check(t.Context(), tx, resource, token); err != nil {
		require.NoError(t, tx.Rollback())
		return err
	}
	return tx.Commit()
}

func (db database) requireStale(t *testing.T, err error, resource string, token, seen uint64) {
	t.Helper()
	require.ErrorIs(t, err, fence.ErrStale)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	if db.dialect != fence.MySQL {
		seen = 0
	}
	require.Equal(t, &fence.StaleError{Resource: resource, Fence: token, Seen: seen}, stale)
}

func TestTable_RefusesALowerTokenAndPassesTheSame(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db database) {
		for _, token := range []uint64{1, 9, 10, 33, 1e15, highest - 1, highest} {
			require.NoError(t, db.pass(t, "a", token))
			require.NoError(t, db.pass(t, "a", token))
			if token > 1 {
				db.requireStale(t, db.pass(t, "a", token-1), "a", token-1, token)
				require.NoError(t, db.pass(t, "a", token), "a stale writer changes nothing")
			}
		}
		db.requireStale(t, db.pass(t, "a", 1), "a", 1, highest)
	})
}

func TestTable_DistinguishesResourcesByEveryByte(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db database) {
		long := strings.Repeat("x", 254)
		resources := []string{"a", "A", "a ", " a", "ä", "a\u0308", "ä ", "1", "01", long + "x", long + "y"}
		for i, resource := range resources {
			require.NoError(t, db.pass(t, resource, highest-uint64(i)), "%q", resource)
		}
		for i, resource := range resources {
			require.ErrorIs(t, db.pass(t, resource, highest-uint64(i)-1), fence.ErrStale, "%q", resource)
		}
	})
}

func TestTable_RollbackUndoesTheWriteAndTheRaisedToken(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db database) {
		require.NoError(t, db.pass(t, "a", 33))
		tx := db.begin(t, sql.LevelDefault)
		require.NoError(t, db.table.Check(t.Context(), tx, "a", 35))
		require.NoError(t, db.table.Check(t.Context(), tx, "a", 35), "again in the same transaction")
		db.requireStale(t, db.table.Check(t.Context(), tx, "a", 34), "a", 34, 35)
		require.NoError(t, tx.Rollback())
		require.NoError(t, db.pass(t, "a", 34))
	})
}

// begun is a transaction that BEGIN has begun on a connection.
type begun struct{ *sql.Conn }

func (b begun) Commit() error   { return b.end("COMMIT") }
func (b begun) Rollback() error { return b.end("ROLLBACK") }

func (b begun) end(statement string) error {
	_, err := b.ExecContext(context.Background(), statement)
	return err
}

func TestTable_PassesInATransactionOnAConnection(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db database) {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		tx := begun{conn}
		for _, end := range []func() error{tx.Rollback, tx.Commit} {
			require.NoError(t, tx.end("BEGIN"))
			require.NoError(t, db.table.Check(t.Context(), tx, "a", 33))
			require.NoError(t, end())
		}
		require.ErrorIs(t, db.pass(t, "a", 32), fence.ErrStale)
	})
}

func TestTable_ErrorOfTheDatabaseIsNotStale(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db database) {
		table, err := fence.NewTable(db.dialect, "missing")
		require.NoError(t, err)
		db.table = table
		err = db.pass(t, "a", 33)
		require.ErrorContains(t, err, `fence: "a" in table missing: `)
		require.NotErrorIs(t, err, fence.ErrStale)
	})
}

// withdraw is the example of Table.Check.
func (db database) withdraw(ctx context.Context, account string, token uint64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	if err := db.table.Check(ctx, tx, "account-7", token); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE "+account+" SET balance = balance - 10 WHERE id = 7"); err != nil {
		return err
	}
	return tx.Commit()
}

func TestTable_OnlyTheNewestHolderWrites(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db database) {
		account := db.create(t, "account", "id bigint PRIMARY KEY, balance bigint NOT NULL")
		db.exec(t, "INSERT INTO "+account+" VALUES (7, 100)")
		require.NoError(t, db.withdraw(t.Context(), account, 33))
		require.NoError(t, db.withdraw(t.Context(), account, 34))
		require.ErrorIs(t, db.withdraw(t.Context(), account, 33), fence.ErrStale)
		require.NoError(t, db.withdraw(t.Context(), account, 34))
		var balance int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT balance FROM "+account).Scan(&balance))
		require.Equal(t, 70, balance)
	})
}
