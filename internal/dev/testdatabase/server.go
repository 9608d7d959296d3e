package testdatabase

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const startBound = 60 * time.Second // for a database to answer

// errMissing says that a database is not installed.
var errMissing = errors.New("not installed (make setup)")

// server is a database process in a temporary folder, which takes connections on a Unix socket there only.
type server struct {
	dir  string // short, as it is part of the socket's path
	attr *syscall.SysProcAttr

	child *testredis.Child
	cmd   *exec.Cmd
}

// newServer makes the folder. Databases refuse to run as root; then the process is that of the first of the accounts that there is.
func newServer(accounts ...string) (*server, error) {
	dir, err := os.MkdirTemp("", "db")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, attr: ownAccount()}
	if os.Getuid() != 0 {
		return s, nil
	}
	for _, name := range append(accounts, "nobody") {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
		s.attr = otherAccount(uint32(uid), uint32(gid))
		return s, errors.Join(uidErr, gidErr, os.Chown(dir, int(uid), int(gid)))
	}
	return s, errors.New("no account for the database: it does not run as root")
}

// command returns a command that runs as the server's user, in its folder, and prints into its log.
func (s *server) command(name string, args ...string) (cmd *exec.Cmd, closeLog func(), err error) {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.Command(name, args...)
	cmd.Dir = s.dir
	// A MariaDB that starts removes the temporary tables of all others in the same TMPDIR.
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "TMPDIR="+s.dir, "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = s.attr
	return cmd, func() { log.Close() }, nil
}

// run runs a command to its end.
func (s *server) run(name string, args ...string) error {
	cmd, closeLog, err := s.command(name, args...)
	if err != nil {
		return err
	}
	defer closeLog()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, s.log())
	}
	return nil
}

// start starts the server and returns when ping succeeds.
func (s *server) start(ping func(context.Context) error, name string, args ...string) error {
	cmd, closeLog, err := s.command(name, args...)
	if err != nil {
		return err
	}
	s.cmd = cmd
	s.child, err = testredis.StartChild(cmd)
	closeLog() // the process has its own handle
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		err := ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-s.child.Done():
			return fmt.Errorf("%s ended at once:\n%s", name, s.log())
		case <-ctx.Done():
			return fmt.Errorf("%s did not answer for %v: %w\n%s", name, startBound, err, s.log())
		}
	}
}

// close ends the process without ceremony: nothing of it is kept.
func (s *server) close() error {
	if s.child != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // PostgreSQL takes its children along, and kills them itself after 5 s
		bound := time.AfterFunc(startBound/2, s.child.Kill)
		defer bound.Stop()
		<-s.child.Done()
	}
	return os.RemoveAll(s.dir)
}

func (s *server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *server) log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// find returns the program from PATH, or else the last of those that match a pattern.
func find(program string, patterns ...string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		if len(paths) > 0 {
			return slices.Max(paths), nil
		}
	}
	return "", fmt.Errorf("%s: %w", program, errMissing)
}
