package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

// servers are the database servers that were started, each by the first test that needs it.
var servers struct {
	sync.Mutex
	all []*server
}

// closeServers stops them.
func closeServers() error {
	servers.Lock()
	defer servers.Unlock()
	var failed []error
	for _, server := range servers.all {
		failed = append(failed, server.close())
	}
	return errors.Join(failed...)
}

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
		test(t, open(t, fence.PostgreSQL, "pgx", source(t, postgres)))
	})
	t.Run("MariaDB", func(t *testing.T) {
		test(t, open(t, fence.MySQL, "mysql", source(t, mariadb)))
	})
	t.Run("MariaDB, found rows", func(t *testing.T) {
		db := open(t, fence.MySQL, "mysql", source(t, mariadb)+"?clientFoundRows=true")
		db.found = true
		test(t, db)
	})
	t.Run("SQLite", func(t *testing.T) {
		file := "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)"
		test(t, open(t, fence.SQLite, "sqlite", file))
	})
}

// source returns the data source name of a server that is started once.
func source(t *testing.T, start func() (string, error)) string {
	t.Helper()
	dsn, err := start()
	if errors.Is(err, errMissing) && os.Getenv("CI") != inCI {
		t.Skipf("%v: the tests on it are left out", err)
	}
	require.NoError(t, err)
	return dsn
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

var postgres = sync.OnceValues(func() (string, error) {
	initdb, err := find("initdb", "/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	s, err := launch("postgres")
	if err != nil {
		return "", err
	}
	data := filepath.Join(s.dir, "data")
	if err := s.run(initdb, "-D", data, "-A", "trust", "-U", "test", "-N", "--no-locale", "-E", "UTF8"); err != nil {
		return "", err
	}
	dsn := "postgres:///postgres?user=test&host=" + url.QueryEscape(s.dir)
	return dsn, s.start(pinger("pgx", dsn), filepath.Join(filepath.Dir(initdb), "postgres"),
		"-D", data, "-k", s.dir, "-h", "", "-F", "-c", "max_connections=50")
})

var mariadb = sync.OnceValues(func() (string, error) {
	daemon, err := find("mariadbd", "/usr/sbin/mariadbd")
	if err != nil {
		return "", err
	}
	install, err := find("mariadb-install-db", "/usr/bin/mariadb-install-db")
	if err != nil {
		return "", err
	}
	s, err := launch("mysql")
	if err != nil {
		return "", err
	}
	data, socket := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "socket")
	if err := s.run(install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal"); err != nil {
		return "", err
	}
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName = "root", "unix", socket, "test"
	dsn := config.FormatDSN()
	return dsn, s.start(pinger("mysql", dsn), daemon, "--no-defaults", "--datadir="+data, "--socket="+socket,
		"--pid-file="+filepath.Join(s.dir, "pid"), "--skip-networking", "--innodb-flush-log-at-trx-commit=0")
})

// launch returns a server, not started yet, that is closed when all tests have run.
func launch(account string) (*server, error) {
	s, err := newServer(account)
	if s != nil {
		servers.Lock()
		defer servers.Unlock()
		servers.all = append(servers.all, s)
	}
	return s, err
}

func pinger(driver, dsn string) func(context.Context) error {
	return func(ctx context.Context) error {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			return err
		}
		defer db.Close()
		return db.PingContext(ctx)
	}
}
