// Package testpostgres starts a PostgreSQL server for the tests of a package.
package testpostgres

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const bound = 60 * time.Second // for the database to answer

var (
	dir   string
	child *testredis.Child
)

// start starts the server once, and returns its data source name; "" means that PostgreSQL is not installed.
var start = sync.OnceValues(func() (dsn string, err error) {
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, missing := exec.LookPath("initdb"); missing == nil {
		programs = []string{path}
	}
	if err != nil || len(programs) == 0 {
		return "", err
	}
	if dir, err = os.MkdirTemp("", "lock"); err != nil { // short, as it is part of the socket's path
		return "", err
	}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		account, err := user.Lookup("postgres")
		if err != nil {
			account, err = user.Lookup("nobody")
		}
		if err != nil {
			return "", err
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			return "", err
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, attr, append(os.Environ(), "HOME="+dir, "LC_ALL=C")
		return cmd
	}
	initdb := slices.Max(programs)
	data := filepath.Join(dir, "data")
	if out, err := command(initdb, "-D", data, "-A", "trust", "-U", "test", "-N", "--no-locale", "-E", "UTF8").CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	server := command(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", dir, "-h", "", "-F")
	if child, err = testredis.StartChild(server); err != nil {
		return "", err
	}
	dsn = "postgres:///postgres?user=test&host=" + url.QueryEscape(dir)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		if err := db.PingContext(ctx); err == nil {
			return dsn, nil
		}
		select {
		case <-look.C:
		case <-child.Done():
			return "", fmt.Errorf("postgres ended at once")
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
})

// Close ends the server, when all tests have run.
func Close() error {
	if child != nil {
		_ = syscall.Kill(child.PID(), syscall.SIGQUIT) // it takes its children along
		kill := time.AfterFunc(bound, child.Kill)
		defer kill.Stop()
		<-child.Done()
	}
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// DSN returns the data source name of the server, or skips the test, or fails it in CI, if PostgreSQL is not installed. The test has
// the driver pgx of database/sql.
func DSN(tb testing.TB) string {
	tb.Helper()
	dsn, err := start()
	require.NoError(tb, err)
	if dsn == "" {
		if os.Getenv("CI") == "true" {
			require.Fail(tb, "PostgreSQL is not installed")
		}
		tb.Skip("PostgreSQL is not installed (Debian and Ubuntu: apt-get install postgresql)")
	}
	return dsn
}
