package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// ErrNoPostgres says that PostgreSQL is not installed.
var ErrNoPostgres = errors.New("PostgreSQL is not installed (make setup)")

// Postgres is a PostgreSQL server. It listens on a Unix socket only, which clients reach whatever happens to the network.
type Postgres struct {
	dir   string
	attr  syscall.SysProcAttr
	cmd   *exec.Cmd
	child *testredis.Child
}

// StartPostgres starts a PostgreSQL server with an empty database, and returns when it answers. It ends with its Close or with
// that of the cluster. The args go to the server after its own: for example "-c", "max_connections=500".
func (c *Cluster) StartPostgres(ctx context.Context, args ...string) (*Postgres, error) {
	initdb, err := findInitdb()
	if err != nil {
		return nil, err
	}
	p := &Postgres{attr: syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Setpgid: true}}
	if p.dir, err = os.MkdirTemp(c.dir, "postgres"); err != nil {
		return nil, err
	}
	if err := p.start(ctx, initdb, args); err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w\n%s", err, p.Log()), p.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.databases = append(c.databases, p)
	return p, nil
}

// DSN returns where the database is, for pgx.
func (p *Postgres) DSN() string {
	return "postgres:///postgres?user=test&host=" + url.QueryEscape(p.dir)
}

// Log returns what the server has printed.
func (p *Postgres) Log() string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *Postgres) logFile() string { return filepath.Join(p.dir, "log") }

// Close ends the server without ceremony, and removes its data. It may be called again.
func (p *Postgres) Close() error {
	if p.child != nil {
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // takes its children along
		bound := time.AfterFunc(10*time.Second, p.child.Kill)
		defer bound.Stop()
		<-p.child.Done()
	}
	return os.RemoveAll(p.dir)
}

func findInitdb() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.EvalSymlinks(path) // the server lies beside it
	}
	paths, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(paths) == 0 {
		return "", errors.Join(ErrNoPostgres, err)
	}
	return slices.Max(paths), nil
}

func (p *Postgres) start(ctx context.Context, initdb string, args []string) error {
	if err := p.leaveRoot(); err != nil {
		return err
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own handle
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.dir, log, log, &p.attr
		cmd.Env = append(os.Environ(), "HOME="+p.dir, "LC_ALL=C")
		return cmd
	}
	data := filepath.Join(p.dir, "data")
	child, err := testredis.StartChild(command(initdb, "-D", data, "-A", "trust", "-U", "test", "-N", "--no-locale", "-E", "UTF8"))
	if err != nil {
		return err
	}
	<-child.Done() // if it has failed the server does

	p.cmd = command(filepath.Join(filepath.Dir(initdb), "postgres"), append([]string{"-D", data, "-k", p.dir, "-h", "", "-F",
		"-c", "max_connections=200", "-c", "max_wal_size=128MB"}, args...)...)
	if p.child, err = testredis.StartChild(p.cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*startBound)
	defer cancel()
	for {
		db, err := pgx.Connect(ctx, p.DSN())
		if err == nil {
			return db.Close(ctx)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-p.child.Done():
			return errors.New("it ended at once")
		case <-ctx.Done():
			return err
		}
	}
}

// leaveRoot gives the server to another account, as it refuses to run as root.
func (p *Postgres) leaveRoot() error {
	if os.Getuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		if account, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	p.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return errors.Join(uidErr, gidErr, os.Chown(p.dir, int(uid), int(gid)))
}
