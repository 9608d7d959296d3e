// Package testdatabase starts database servers for the tests of a package, each by the first test that needs it.
package testdatabase

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// started are the servers that Close ends.
var started struct {
	sync.Mutex
	all []*server
}

// PostgreSQL returns the data source name of a PostgreSQL server. The test has the driver pgx of database/sql. If it is not installed,
// the test is skipped, and fails in CI.
func PostgreSQL(tb testing.TB) (dsn string) {
	tb.Helper()
	return source(tb, postgres)
}

// MariaDB is PostgreSQL for MariaDB, and the driver mysql.
func MariaDB(tb testing.TB) (dsn string) {
	tb.Helper()
	return source(tb, mariadb)
}

// Close ends all servers, when all tests have run.
func Close() error {
	started.Lock()
	defer started.Unlock()
	var failed []error
	for _, s := range started.all {
		failed = append(failed, s.close())
	}
	return errors.Join(failed...)
}

func source(tb testing.TB, start func() (string, error)) string {
	tb.Helper()
	dsn, err := start()
	if errors.Is(err, errMissing) && os.Getenv("CI") != "true" {
		tb.Skipf("%v: the tests on it are left out", err)
	}
	require.NoError(tb, err)
	return dsn
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
	dsn := "root@unix(" + socket + ")/test"
	return dsn, s.start(pinger("mysql", dsn), daemon, "--no-defaults", "--datadir="+data, "--socket="+socket,
		"--pid-file="+filepath.Join(s.dir, "pid"), "--skip-networking", "--innodb-flush-log-at-trx-commit=0")
})

// launch returns a server, not started yet, that is closed when all tests have run.
func launch(account string) (*server, error) {
	s, err := newServer(account)
	if s != nil {
		started.Lock()
		defer started.Unlock()
		started.all = append(started.all, s)
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
