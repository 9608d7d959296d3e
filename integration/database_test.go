package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/quorumlock/quorumlock/internal/dev/testdatabase"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// database is one that the tests run on.
type database struct {
	*sql.DB
	dialect fence.Dialect
	table   *fence.Table
	suffix  string // of the names of its tables
	found   bool   // MySQL counts rows that the WHERE finds, not only those that change
}

var tables atomic.Int64 // how many were made

// eachDatabase runs a test on every database, each with tables of its own.
func eachDatabase(t *testing.T, test func(t *testing.T, db database)) {
	t.Run("PostgreSQL", func(t *testing.T) {
		test(t, open(t, fence.PostgreSQL, "pgx", testdatabase.PostgreSQL(t)))
	})
	t.Run("MariaDB", func(t *testing.T) {
		test(t, open(t, fence.MySQL, "mysql", testdatabase.MariaDB(t)))
	})
	t.Run("MariaDB, found rows", func(t *testing.T) {
		db := open(t, fence.MySQL, "mysql", testdatabase.MariaDB(t)+"?clientFoundRows=true")
		db.found = true
		test(t, db)
	})
	t.Run("SQLite", func(t *testing.T) {
		file := "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)"
		test(t, open(t, fence.SQLite, "sqlite", file))
	})
}

func open(t *testing.T, dialect fence.Dialect, driver, dsn string) database {
	t.Helper()
	pool, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, pool.Close()) })
	db := database{DB: pool, dialect: dialect}
	db.suffix = fmt.Sprintf("_%d", tables.Add(1))
	db.table, err = fence.NewTable(dialect, "fence"+db.suffix)
	require.NoError(t, err)
	db.exec(t, db.table.Create())
	db.exec(t, db.table.Create()) // again, as every start of a program may
	return db
}

func (db database) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), db.bind(query), args...)
	require.NoError(t, err)
}

// bind writes placeholders as the database wants them.
func (db database) bind(query string) string {
	if db.dialect != fence.PostgreSQL {
		return query
	}
	parts := strings.Split(query, "?")
	for i := range parts[1:] {
		parts[i] += fmt.Sprintf("$%d", i+1)
	}
	return strings.Join(parts, "")
}

// create makes another table of the test's own, and returns its name.
func (db database) create(t *testing.T, name, columns string) string {
	t.Helper()
	db.exec(t, "CREATE TABLE "+name+db.suffix+" ("+columns+")")
	return name + db.suffix
}

func (db database) begin(t *testing.T, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	// Not of the test's context, whose end would roll back.
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), &sql.TxOptions{Isolation: level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // does nothing after Commit
	return tx
}
