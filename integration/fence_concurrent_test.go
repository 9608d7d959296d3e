package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

// eachLevel runs a test on every database at the isolation levels that it has.
func eachLevel(t *testing.T, test func(t *testing.T, db database, level sql.IsolationLevel)) {
	eachDatabase(t, func(t *testing.T, db database) {
		levels := []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
		if db.dialect == fence.SQLite {
			levels = []sql.IsolationLevel{sql.LevelDefault}
		}
		for _, level := range levels {
			t.Run(level.String(), func(t *testing.T) { test(t, db, level) })
		}
	})
}

// again reports whether err tells to try the whole transaction again.
func again(err error) bool {
	var postgres *pgconn.PgError
	var maria *mysql.MySQLError
	return errors.As(err, &postgres) && (postgres.Code == "40001" || postgres.Code == "40P01") || // serialization failure, deadlock
		errors.As(err, &maria) && maria.Number == 1213 // deadlock
}

// waiting reports whether a transaction waits for a lock; SQLite does not tell.
func (db database) waiting(t *testing.T) bool {
	t.Helper()
	var query string
	switch db.dialect {
	case fence.PostgreSQL:
		query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
	case fence.MySQL:
		// Not innodb_trx, a snapshot that does not change while it is read often.
		query = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"
	default:
		return true
	}
	var n int
	return assert.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n)) && n > 0
}

// The first holder has passed and not committed yet when the second comes.
func TestTable_ASecondHolderWaitsForTheTransactionOfTheFirst(t *testing.T) {
	const first = 34
	eachLevel(t, func(t *testing.T, db database, level sql.IsolationLevel) {
		for _, known := range []bool{false, true} {
			for _, commit := range []bool{false, true} {
				for _, second := range []uint64{33, 34, 35} {
					t.Run(fmt.Sprintf("token %d, known %t, commit %t", second, known, commit), func(t *testing.T) {
						resource := t.Name()
						if known {
							require.NoError(t, db.pass(t, resource, 1))
						}
						holder := db.begin(t, level)
						require.NoError(t, db.table.Check(t.Context(), holder, resource, first))

						var late atomic.Bool // the first has ended
						done := make(chan error, 1)
						go func() {
							done <- db.retry(t.Context(), level, func(tx *sql.Tx) error {
								err := db.table.Check(t.Context(), tx, resource, second)
								assert.True(t, late.Load(), "it did not wait")
								return err
							})
						}()
						require.Eventually(t, func() bool { return len(done) > 0 || db.waiting(t) }, 2*settleBound, time.Millisecond)
						late.Store(true)
						if commit {
							require.NoError(t, holder.Commit())
						} else {
							require.NoError(t, holder.Rollback())
						}
						if commit && second < first {
							db.requireStale(t, <-done, resource, second, first)
						} else {
							require.NoError(t, <-done)
						}
					})
				}
			}
		}
	})
}

// retry runs a transaction until it is not refused for what others do.
func (db database) retry(ctx context.Context, level sql.IsolationLevel, run func(tx *sql.Tx) error) error {
	for {
		err := db.once(ctx, level, run)
		if !again(err) {
			return err
		}
	}
}

func (db database) once(ctx context.Context, level sql.IsolationLevel, run func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	if err := run(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func TestTable_TokensNeverDecreaseHoweverManyWriteAtOnce(t *testing.T) {
	const resources, writers, writes = 6, 6, 8
	number := map[fence.Dialect]string{
		fence.PostgreSQL: "n bigserial PRIMARY KEY",
		fence.MySQL:      "n bigint AUTO_INCREMENT PRIMARY KEY",
		fence.SQLite:     "n integer PRIMARY KEY AUTOINCREMENT",
	}
	eachLevel(t, func(t *testing.T, db database, level sql.IsolationLevel) {
		// A row is numbered while the guard row is locked.
		record := db.create(t, fmt.Sprintf("record_%d", level), number[db.dialect]+", resource varchar(255), token bigint")
		insert := db.bind("INSERT INTO " + record + " (resource, token) VALUES (?, ?)")
		passed, stale := 0, 0
		for r := range resources { // each is new to the table, and all come at once
			resource := fmt.Sprintf("%s %d", level, r)
			var mu sync.Mutex
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					dice := rand.New(rand.NewPCG(uint64(r), uint64(w)))
					for i := range writes {
						token := 1 + uint64(i) + dice.Uint64N(8)
						err := db.retry(t.Context(), level, func(tx *sql.Tx) error {
							if err := db.table.Check(t.Context(), tx, resource, token); err != nil {
								return err
							}
							_, err := tx.ExecContext(t.Context(), insert, resource, int64(token))
							return err
						})
						mu.Lock()
						if err == nil {
							passed++
						} else if assert.ErrorIs(t, err, fence.ErrStale) {
							stale++
						}
						mu.Unlock()
					}
				})
			}
			all.Wait()
			tokens := db.tokens(t, record, resource)
			require.True(t, slices.IsSorted(tokens), "%v", tokens)
			passed -= len(tokens)
		}
		require.Zero(t, passed, "what was written is what writers were told")
		require.NotZero(t, stale, "nobody came late")
	})
}

// tokens returns those of a resource in the order in which they were written.
func (db database) tokens(t *testing.T, record, resource string) (tokens []uint64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), db.bind("SELECT token FROM "+record+" WHERE resource = ? ORDER BY n"), resource)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var token uint64
		require.NoError(t, rows.Scan(&token))
		tokens = append(tokens, token)
	}
	require.NoError(t, rows.Err())
	return tokens
}
