package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

func TestColumn_RefusesALowerToken(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db database) {
		account := db.create(t, "account", "id bigint PRIMARY KEY, balance bigint NOT NULL, fence bigint NOT NULL DEFAULT 0")
		db.exec(t, "INSERT INTO "+account+" (id, balance) VALUES (7, 100)")
		query := db.bind("UPDATE " + account + " SET balance = balance + ?, fence = ? WHERE id = ? AND fence <= ?")
		deposit := func(id int, amount int, token uint64) error {
			return fence.CheckUpdated(db.ExecContext(t.Context(), query, amount, token, id, token))
		}
		require.NoError(t, deposit(7, 10, 33))
		require.NoError(t, deposit(7, 10, 33))
		require.NoError(t, deposit(7, 10, highest))
		require.ErrorIs(t, deposit(7, 10, 34), fence.ErrStale)
		require.ErrorIs(t, deposit(8, 10, highest), fence.ErrStale, "there is no such row")

		var balance int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT balance FROM "+account).Scan(&balance))
		require.Equal(t, 130, balance)

		// A write that changes nothing.
		err := deposit(7, 0, highest)
		if db.dialect == fence.MySQL && !db.found {
			require.ErrorIs(t, err, fence.ErrStale)
		} else {
			require.NoError(t, err)
		}
	})
}

func TestVersion_RefusesAWriterThatHasReadAnOlderRow(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db database) {
		account := db.create(t, "account", "id bigint PRIMARY KEY, name varchar(100), version bigint NOT NULL DEFAULT 0")
		db.exec(t, "INSERT INTO "+account+" (id, name) VALUES (7, 'Ada')")
		query := db.bind("UPDATE " + account + " SET name = ?, version = version + 1 WHERE id = ? AND version = ?")
		rename := func(name string, version int64) error {
			return fence.CheckUpdated(db.ExecContext(t.Context(), query, name, 7, version))
		}
		require.NoError(t, rename("Grace", 0))
		require.ErrorIs(t, rename("Edsger", 0), fence.ErrStale)
		require.NoError(t, rename("Grace", 1), "the same name, but another version")
	})
}
