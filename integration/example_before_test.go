package integration_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/testdatabase"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// bill stands for work that takes a while.
func bill(ctx context.Context) error { return ctx.Err() }

// billWithRedsync bills while it holds a mutex of redsync.
func billWithRedsync(ctx context.Context, rs *redsync.Redsync) (err error) {
	mutex := rs.NewMutex("invoice-42", redsync.WithExpiry(8*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer func() {
		_, unlockErr := mutex.UnlockContext(context.WithoutCancel(ctx))
		err = errors.Join(err, unlockErr)
	}()
	work, cancel := context.WithDeadline(ctx, mutex.Until()) // nobody extends the mutex
	defer cancel()
	return bill(work)
}

var compareAndDel = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

// billWithSetNX bills while it holds a key that it has set with SET NX PX.
func billWithSetNX(ctx context.Context, client *redis.Client) (billed bool, err error) {
	value := rand.Text()
	set, err := client.SetNX(ctx, "invoice-42", value, 30*time.Second).Result()
	if err != nil || !set {
		return false, err
	}
	work, cancel := context.WithTimeout(ctx, 29*time.Second) // nobody extends the key
	err = bill(work)
	cancel()
	return true, errors.Join(err, compareAndDel.Run(context.WithoutCancel(ctx), client, []string{"invoice-42"}, value).Err())
}

// withdrawAlone withdraws while it holds an advisory lock of PostgreSQL.
func withdrawAlone(ctx context.Context, conn *pgx.Conn, amount int) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after Commit
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(7)"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE account SET balance = balance - $1 WHERE id = 7", amount); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// withdrawFenced withdraws while it holds a lock. locker has redlock.WithFencing.
func withdrawFenced(ctx context.Context, locker *redlock.Locker, conn *pgx.Conn, table *fence.Table, amount int) error {
	return locker.Do(ctx, "account-7", func(ctx context.Context, lock *redlock.Lock) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }() // does nothing after Commit
		if err := table.Check(ctx, pgxTx{tx}, "account-7", lock.Fence()); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE account SET balance = balance - $1 WHERE id = 7", amount); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
}

func TestExampleBefore_RedsyncAndSetNXWaitForALocker(t *testing.T) {
	s := newOldServers(t, 3)
	us, rs := s.locker(t), newRedsync(t, s.addrs)
	require.NoError(t, billWithRedsync(t.Context(), rs))
	one := s.first(1)
	billed, err := billWithSetNX(t.Context(), one.conns[0])
	require.NoError(t, err)
	require.True(t, billed)
	s.requireNothing(t, "invoice-42")

	lock, err := us.TryLock(t.Context(), "invoice-42")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return one.values(t, "invoice-42")[0] == string(lock.Token()) }, settleBound, settleLook)
	billed, err = billWithSetNX(t.Context(), one.conns[0])
	require.NoError(t, err)
	require.False(t, billed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, billWithRedsync(ctx, rs))
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestExampleBefore_AnAdvisoryLockBecomesAFencedLock(t *testing.T) {
	dsn := testdatabase.PostgreSQL(t)
	own := fmt.Sprintf("example_%d", tables.Add(1))
	open(t, fence.PostgreSQL, "pgx", dsn).exec(t, "CREATE SCHEMA "+own)
	db := open(t, fence.PostgreSQL, "pgx", dsn+"&search_path="+own)
	db.exec(t, "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL)")
	db.exec(t, "INSERT INTO account VALUES (7, 100)")
	conn, err := pgx.Connect(t.Context(), dsn+"&search_path="+own)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })

	require.NoError(t, withdrawAlone(t.Context(), conn, 10))
	locker := lockers(t, 1)[0]
	require.NoError(t, withdrawFenced(t.Context(), locker, conn, db.table, 10))
	require.Equal(t, 80, count(t, db, "SELECT balance FROM account"))
}
