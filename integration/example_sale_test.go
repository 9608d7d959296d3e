package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/testdatabase"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

var errSoldOut = errors.New("sold out")

// sell sells one item to an order while the lock is held. The fence, the order and the stock are
// written in one transaction, or none of them.
func sell(ctx context.Context, db *sql.DB, table *fence.Table, lock *redlock.Lock,
	order string,
) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := table.Check(ctx, tx, "stock", lock.Fence()); err != nil {
		return err
	}
	var left int
	if err := tx.QueryRowContext(ctx, "SELECT items FROM stock").Scan(&left); err != nil {
		return err
	}
	if left == 0 {
		return errSoldOut
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO sale (order_id) VALUES ($1)", order); err != nil {
		return err // an order that was sold before, for example
	}
	if _, err := tx.ExecContext(ctx, "UPDATE stock SET items = $1", left-1); err != nil {
		return err
	}
	return tx.Commit()
}

// guardTable is called when the program starts.
func guardTable(ctx context.Context, db *sql.DB) (*fence.Table, error) {
	table, err := fence.NewTable(fence.PostgreSQL, "fence") // or fence.SQLite; fence.MySQL for MariaDB too
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, table.Create()) // does nothing if the table is there
	return table, err
}

// deposit is for a table that has a column for the fence: one statement is the check and the write.
func deposit(ctx context.Context, db *sql.DB, lock *redlock.Lock, account, amount int) error {
	if err := fence.Valid(lock.Fence()); err != nil {
		return err
	}
	return fence.CheckUpdated(db.ExecContext(ctx,
		"UPDATE account SET balance = balance + $1, fence = $2 WHERE id = $3 AND fence <= $2",
		amount, lock.Fence(), account))
}

// rename needs neither lock nor fence: the version shows whether the row has changed since it was
// read.
func rename(ctx context.Context, db *sql.DB, account int, name string, version int) error {
	return fence.CheckUpdated(db.ExecContext(ctx,
		"UPDATE account SET name = $1, version = version + 1 WHERE id = $2 AND version = $3", name, account, version))
}

// lockers opens n Lockers, as n processes do, over three servers.
func lockers(t *testing.T, n int) (all []*redlock.Locker) {
	t.Helper()
	urls := testredis.URLs(testredis.Real(t, 3))
	for range n {
		locker, err := redlock.Open(urls, redlock.WithFencing(), pool.WithTimeout(ampleTimeout))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, locker.Close()) })
		all = append(all, locker)
	}
	return all
}

// over returns a lock of the past: that of a holder that was paused until another held the lock.
func over(t *testing.T, locker *redlock.Locker, name string) *redlock.Lock {
	t.Helper()
	lock, err := locker.Lock(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	return lock
}

func count(t *testing.T, db database, query string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

func TestExampleSale_EachStartMakesTheGuardTable(t *testing.T) {
	db, err := sql.Open("pgx", testdatabase.PostgreSQL(t))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	for number := range uint64(2) {
		table, err := guardTable(t.Context(), db)
		require.NoError(t, err)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, table.Check(t.Context(), tx, "stock", number+1))
		require.NoError(t, tx.Commit())
	}
}

func TestExampleSale_SellsWhatThereIsAndRejectsALateSeller(t *testing.T) {
	onNumbered(t, func(t *testing.T, db database) {
		db.exec(t, "CREATE TABLE stock (items integer NOT NULL)")
		db.exec(t, "CREATE TABLE sale (order_id varchar(100) PRIMARY KEY)")
		db.exec(t, "INSERT INTO stock VALUES (50)")
		shops := lockers(t, 3)
		late := over(t, shops[0], "stock")

		buy := func(i int) error {
			return shops[i%len(shops)].Do(t.Context(), "stock", func(ctx context.Context, lock *redlock.Lock) error {
				return sell(ctx, db.DB, db.table, lock, fmt.Sprint("order-", i))
			})
		}
		require.NoError(t, buy(0))
		require.Error(t, buy(0), "the same order again")
		require.ErrorIs(t, sell(t.Context(), db.DB, db.table, late, "order-late"), fence.ErrStale)
		require.Equal(t, 49, count(t, db, "SELECT items FROM stock"), "a rejected sale takes nothing")

		var buyers sync.WaitGroup
		for i := 1; i < 60; i++ {
			buyers.Go(func() {
				if err := buy(i); !errors.Is(err, errSoldOut) {
					assert.NoError(t, err)
				}
			})
		}
		buyers.Wait()
		require.Equal(t, 0, count(t, db, "SELECT items FROM stock"))
		require.Equal(t, 50, count(t, db, "SELECT count(*) FROM sale"))
	})
}

func TestExampleSale_ColumnAndVersionRejectALateWriter(t *testing.T) {
	onNumbered(t, func(t *testing.T, db database) {
		db.exec(t, `CREATE TABLE account (id bigint PRIMARY KEY, name varchar(100), balance bigint NOT NULL,
			fence bigint NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 0)`)
		db.exec(t, "INSERT INTO account (id, balance) VALUES (7, 100)")
		locker := lockers(t, 1)[0]
		late, current := over(t, locker, "account-7"), over(t, locker, "account-7")

		require.NoError(t, deposit(t.Context(), db.DB, late, 7, 10))
		require.NoError(t, deposit(t.Context(), db.DB, current, 7, 10))
		require.ErrorIs(t, deposit(t.Context(), db.DB, late, 7, 10), fence.ErrStale)
		require.Equal(t, 120, count(t, db, "SELECT balance FROM account"))

		require.NoError(t, rename(t.Context(), db.DB, 7, "Ada", 0))
		require.ErrorIs(t, rename(t.Context(), db.DB, 7, "Grace", 0), fence.ErrStale)
		require.NoError(t, rename(t.Context(), db.DB, 7, "Grace", 1))
	})
}
