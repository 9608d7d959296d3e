package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

// untouched is a resource that must not be asked.
type untouched struct{}

func (untouched) Do(string, ...any) (any, error) { panic("called") }

func (untouched) ExecContext(context.Context, string, ...any) (sql.Result, error) { panic("called") }

func never() error { panic("called") }

func TestInputThatCannotBeRightIsNamedAndNothingIsDone(t *testing.T) {
	script := newScript(t, "return 1")
	table, err := fence.NewTable(fence.SQLite, "fence")
	require.NoError(t, err)
	var gate fence.Gate
	forms := map[string]func(resource string, token uint64) error{
		"Run": func(resource string, token uint64) error {
			_, err := fence.Run(untouched{}, resource, token, fence.Command{"PING"})
			return err
		},
		"Script.Run": func(resource string, token uint64) error {
			_, err := script.Run(untouched{}, resource, token, nil)
			return err
		},
		"Transact": func(resource string, token uint64) error {
			_, err := fence.Transact(untouched{}, resource, token, never)
			return err
		},
		"Table.Pass": func(resource string, token uint64) error {
			return table.Pass(t.Context(), untouched{}, resource, token)
		},
		"Gate.Run": func(resource string, token uint64) error { return gate.Run(resource, token, never) },
	}
	for name, form := range forms {
		require.EqualError(t, form("a", 0), "fence: token 0: the lock was taken without fencing", name)
		require.EqualError(t, form("a", 1<<53), "fence: token 9007199254740992: must be below 2^53", name)
		require.EqualError(t, form("a", 1<<64-1), "fence: token 18446744073709551615: must be below 2^53", name)
		err := form("", 33)
		require.ErrorContains(t, err, "fence: the ", name)
		require.NotErrorIs(t, err, fence.ErrStale, name)
	}
	err = table.Pass(t.Context(), untouched{}, strings.Repeat("x", 256), 33)
	require.ErrorContains(t, err, `"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" has 256 bytes: must be from 1 to 255`)
	require.ErrorContains(t, table.Pass(t.Context(), new(sql.DB), "a", 33), "fence: *sql.DB: ")
	_, err = fence.Run(untouched{}, guard, 33, fence.Command{"PING"}, fence.Command{})
	require.EqualError(t, err, "fence: command 2 of 2 has 0 words: must be from 1 to 7000")
}

func TestATableNameIsPlain(t *testing.T) {
	for _, name := range []string{"fence", "Fence_2", "_f", "app.fence"} {
		for _, dialect := range []fence.Dialect{fence.PostgreSQL, fence.MySQL, fence.SQLite} {
			table, err := fence.NewTable(dialect, name)
			require.NoError(t, err)
			require.Contains(t, table.Create(), "CREATE TABLE IF NOT EXISTS "+name+" (")
		}
	}
	for _, name := range []string{"", "2f", "a b", "a.b.c", ".a", "a.", "a-b", `"a"`, "a;drop table b", "a\n", "é"} {
		_, err := fence.NewTable(fence.SQLite, name)
		require.ErrorContains(t, err, "fence: table name ", name)
	}
	for _, dialect := range []fence.Dialect{0, -1, 4} {
		_, err := fence.NewTable(dialect, "fence")
		require.ErrorContains(t, err, "must be PostgreSQL, MySQL or SQLite")
	}
}

func TestAScriptIsNotEmptyAndHasNoShebang(t *testing.T) {
	_, err := fence.NewScript(" \n")
	require.EqualError(t, err, "fence: the script is empty")
	_, err = fence.NewScript("#!lua flags=no-writes\nreturn 1")
	require.EqualError(t, err, `fence: the script begins with "#!lua flags=no-writes": a script behind a fence has no shebang`)
}

type result struct {
	rows int64
	err  error
}

func (r result) LastInsertId() (int64, error) { return 0, errors.ErrUnsupported }
func (r result) RowsAffected() (int64, error) { return r.rows, r.err }

func TestUpdatedIsStaleOnlyWhereNoRowWas(t *testing.T) {
	broken := errors.New("connection refused")
	require.NoError(t, fence.Updated(result{rows: 1}, nil))
	require.NoError(t, fence.Updated(result{rows: 2}, nil))
	require.ErrorIs(t, fence.Updated(result{}, nil), fence.ErrStale)
	for _, err := range []error{fence.Updated(nil, broken), fence.Updated(result{err: broken}, nil)} {
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, fence.ErrStale)
	}
}

// fixed answers every statement with the same result.
type fixed struct{ result }

func (f fixed) ExecContext(context.Context, string, ...any) (sql.Result, error) { return f.result, nil }

func TestADriverThatDoesNotTellLetsNothingPass(t *testing.T) {
	for _, dialect := range []fence.Dialect{fence.PostgreSQL, fence.MySQL, fence.SQLite} {
		table, err := fence.NewTable(dialect, "fence")
		require.NoError(t, err)
		err = table.Pass(t.Context(), fixed{result{err: errors.ErrUnsupported}}, "a", 33)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.NotErrorIs(t, err, fence.ErrStale)
	}
	for _, reply := range []any{nil, "OK", []any{}, []any{"1"}, []any{int64(2)}, int64(1)} {
		do := fence.DoFunc(func(string, ...any) (any, error) { return reply, nil })
		_, err := fence.Run(do, guard, 33, fence.Command{"PING"})
		require.ErrorContains(t, err, "unexpected reply")
	}
}
