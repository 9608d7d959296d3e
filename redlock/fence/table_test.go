package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

func TestNewTable_AcceptsOnlyPlainNames(t *testing.T) {
	for _, name := range []string{"fence", "Fence_2", "_f", "app.fence"} {
		for _, dialect := range []fence.Dialect{fence.PostgreSQL, fence.MySQL, fence.SQLite} {
			table, err := fence.NewTable(dialect, name)
			require.NoError(t, err)
			require.Contains(t, table.Create(), "CREATE TABLE IF NOT EXISTS "+name+" (")
		}
	}
	for _, name := range []string{"", "2f", "a b", "a.b.c", ".a", "a.", "a-b", `"a"`, "a;drop table b", "a\n", "é"} {
		_, err := fence.NewTable(fence.SQLite, name)
		require.ErrorIs(t, err, fence.ErrInvalid)
		require.ErrorContains(t, err, "fence: invalid argument: table name ", name)
	}
	for _, dialect := range []fence.Dialect{0, -1, 4} {
		_, err := fence.NewTable(dialect, "fence")
		requireInvalid(t, err, fmt.Sprintf("Dialect(%d): must be PostgreSQL, MySQL or SQLite", dialect))
	}
}

// What Check takes: transactions and their wrappers, as that of sqlx.
var _ = []fence.Tx{new(sql.Tx), struct{ *sql.Tx }{}}

// Without a transaction the lock on the row ends before the write, and an earlier holder may write after the later one.
func TestTx_IsNoPoolAndNoConnection(t *testing.T) {
	for _, alone := range []any{new(sql.DB), new(sql.Conn), struct{ *sql.DB }{}, struct{ *sql.Conn }{}} {
		require.NotImplements(t, (*fence.Tx)(nil), alone)
	}
}

type result struct {
	rows int64
	err  error
}

func (r result) LastInsertId() (int64, error) { return 0, errors.ErrUnsupported }
func (r result) RowsAffected() (int64, error) { return r.rows, r.err }

func TestCheckUpdated_IsStaleOnlyIfNoRowWasUpdated(t *testing.T) {
	broken := errors.New("connection refused")
	require.NoError(t, fence.CheckUpdated(result{rows: 1}, nil))
	require.NoError(t, fence.CheckUpdated(result{rows: 2}, nil))
	require.ErrorIs(t, fence.CheckUpdated(result{}, nil), fence.ErrStale)
	for _, err := range []error{fence.CheckUpdated(nil, broken), fence.CheckUpdated(result{err: broken}, nil)} {
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, fence.ErrStale)
	}
}

// fixed is a transaction that answers every statement with the same result.
type fixed struct {
	result
	*sql.Tx
}

func (f fixed) ExecContext(context.Context, string, ...any) (sql.Result, error) { return f.result, nil }

func TestCheck_AnUnexpectedResultLetsNothingPass(t *testing.T) {
	for _, dialect := range []fence.Dialect{fence.PostgreSQL, fence.MySQL, fence.SQLite} {
		table, err := fence.NewTable(dialect, "fence")
		require.NoError(t, err)
		err = table.Check(t.Context(), fixed{result: result{err: errors.ErrUnsupported}}, "a", 33)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.NotErrorIs(t, err, fence.ErrStale)
	}
	for _, reply := range []any{nil, "OK", []any{}, []any{"1"}, []any{int64(2)}, int64(1)} {
		do := fence.DoFunc(func(context.Context, string, ...any) (any, error) { return reply, nil })
		_, err := fence.Run(t.Context(), do, guard, 33, fence.Command{"PING"})
		require.ErrorContains(t, err, "unexpected reply")
	}
}
