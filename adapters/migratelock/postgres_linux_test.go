package migratelock_test

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

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const bound = 60 * time.Second // for the database to answer

var (
	postgresDir   string
	postgresChild *testredis.Child
)

// postgres starts the server once, and returns its data source name.
var postgres = sync.OnceValues(func() (dsn string, err error) {
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, missing := exec.LookPath("initdb"); missing == nil {
		programs = []string{path}
	}
	if err != nil || len(programs) == 0 {
		return "", err
	}
	if postgresDir, err = os.MkdirTemp("", "lock"); err != nil { // short, as it is part of the socket's path
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
		if err := os.Chown(postgresDir, uid, gid); err != nil {
			return "", err
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.SysProcAttr, cmd.Env = postgresDir, attr, append(os.Environ(), "HOME="+postgresDir, "LC_ALL=C")
		return cmd
	}
	initdb := slices.Max(programs)
	data := filepath.Join(postgresDir, "data")
	if out, err := command(initdb, "-D", data, "-A", "trust", "-U", "test", "-N", "--no-locale", "-E", "UTF8").CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	server := command(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", postgresDir, "-h", "", "-F")
	if postgresChild, err = testredis.StartChild(server); err != nil {
		return "", err
	}
	dsn = "postgres:///postgres?user=test&host=" + url.QueryEscape(postgresDir)
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
		case <-postgresChild.Done():
			return "", fmt.Errorf("postgres ended at once")
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
})

func closePostgres() error {
	if postgresChild != nil {
		_ = syscall.Kill(postgresChild.PID(), syscall.SIGQUIT) // it takes its children along
		kill := time.AfterFunc(bound, postgresChild.Kill)
		defer kill.Stop()
		<-postgresChild.Done()
	}
	if postgresDir == "" {
		return nil
	}
	return os.RemoveAll(postgresDir)
}

// postgresDSN returns the data source name of the server, or skips the test.
func postgresDSN(t *testing.T) string {
	t.Helper()
	dsn, err := postgres()
	require.NoError(t, err)
	if dsn == "" {
		if os.Getenv("CI") == "true" {
			require.Fail(t, "PostgreSQL is not installed")
		}
		t.Skip("PostgreSQL is not installed (Debian and Ubuntu: apt-get install postgresql)")
	}
	return dsn
}
