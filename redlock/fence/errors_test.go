package fence_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

// untouched is a resource that must not be asked.
type untouched struct{}

func (untouched) Do(context.Context, string, ...any) (any, error) { panic("called") }

func (untouched) ExecContext(context.Context, string, ...any) (sql.Result, error) { panic("called") }
func (untouched) Commit() error                                                   { panic("called") }
func (untouched) Rollback() error                                                 { panic("called") }

func never() error { panic("called") }

func requireInvalid(t *testing.T, err error, text string) {
	t.Helper()
	require.ErrorIs(t, err, fence.ErrInvalid)
	require.EqualError(t, err, "fence: invalid argument: "+text)
}

func TestValid_EveryFormNamesABadArgumentAndDoesNothing(t *testing.T) {
	script := newScript(t, "return 1")
	table, err := fence.NewTable(fence.SQLite, "fence")
	require.NoError(t, err)
	var gate fence.Gate
	forms := map[string]func(resource string, number uint64) error{
		"Run": func(resource string, number uint64) error {
			_, err := fence.Run(t.Context(), untouched{}, resource, number, fence.Command{"PING"})
			return err
		},
		"Script.Run": func(resource string, number uint64) error {
			_, err := script.Run(t.Context(), untouched{}, resource, number, nil)
			return err
		},
		"Transact": func(resource string, number uint64) error {
			_, err := fence.Transact(t.Context(), untouched{}, resource, number, never)
			return err
		},
		"Table.Check": func(resource string, number uint64) error {
			return table.Check(t.Context(), untouched{}, resource, number)
		},
		"Gate.Run": func(resource string, number uint64) error { return gate.Run(resource, number, never) },
	}
	for name, form := range forms {
		requireInvalid(t, form("a", 0), "fence 0: the lock was taken without fencing")
		requireInvalid(t, form("a", 1<<53), "fence 9007199254740992: must be below 2^53")
		requireInvalid(t, form("a", 1<<64-1), "fence 18446744073709551615: must be below 2^53")
		err := form("", 33)
		require.ErrorIs(t, err, fence.ErrInvalid, name)
		require.ErrorContains(t, err, "fence: invalid argument: the ", name)
	}
	err = table.Check(t.Context(), untouched{}, strings.Repeat("x", 256), 33)
	requireInvalid(t, err, `the resource "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" has 256 bytes: must be from 1 to 255`)
	_, err = fence.Run(t.Context(), untouched{}, guard, 33, fence.Command{"PING"}, fence.Command{})
	requireInvalid(t, err, "command 2 of 2 has 0 words: must be from 1 to 7000")
}
