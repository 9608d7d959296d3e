package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/contest"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// longestTTL bounds the TTL of a lock that a script holds.
const longestTTL = 24 * time.Hour

// tryCmd is the subcommand try.
type tryCmd struct {
	Name     string        `arg:"" help:"The lock's name, without the key prefix."`
	TTL      time.Duration `name:"ttl" default:"30s" placeholder:"TIME" group:"Lock" help:"How long it is held unless extended (default ${default})."`
	Wait     time.Duration `short:"w" type:"wait" placeholder:"TIME" group:"Lock" help:"Wait for it up to so long. By default not at all."`
	Fencing  bool          `group:"Lock" help:"Give the lock a fencing token, which --json shows."`
	Metadata *string       `placeholder:"TEXT" group:"Lock" help:"Shown as the holder. By default this host and process."`

	RestartGuard time.Duration `placeholder:"TIME" group:"Lock" help:"Servers so new grant no lock (default: off)."`

	JSON bool `name:"json" group:"Output" help:"Print JSON instead of the token."`
	serverFlags
}

// Run takes a lock and leaves it to its token.
func (c *tryCmd) Run(ctx context.Context, line commandLine, to streams) error {
	err := errors.Join(
		between("--ttl", c.TTL, 100*time.Millisecond, longestTTL),
		between("--wait", c.Wait, 0, longestTTL),
		checkGuard(c.RestartGuard, c.TTL, "--ttl"),
	)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	opts := []redlock.Option{redlock.TTL(c.TTL)}
	if c.Fencing {
		opts = append(opts, redlock.WithFencing())
	}
	metadata := holder()
	if c.Metadata != nil {
		metadata = *c.Metadata
	}
	return c.use(func(on *cluster) error {
		lock, err := c.take(ctx, on.Locker, redlock.Metadata(metadata))
		switch {
		case err != nil && exitCode(err) == exitTaken && !errors.Is(err, nodeerr.ErrNoExpiry):
			const text = "%s%w; see: %s"
			return &exitError{exitTaken, fmt.Errorf(text, waitOver(err, c.Wait), redlock.ErrTaken, c.inspectHint(line, c.Name))}
		case errors.Is(err, context.DeadlineExceeded):
			return &exitError{exitCode(err), errors.New(waitOver(err, c.Wait) + display.Error(answersOf(err)))}
		case err != nil:
			return err
		}
		if err := printHeld(to.out, lock, c.JSON, string(lock.Token())); err != nil {
			return errors.Join(err, lock.Unlock(ctx)) // nobody knows the token
		}
		_, err = lock.Detach(ctx)
		return err
	}, c.guard(c.RestartGuard, c.TTL), opts...)
}

// take acquires the lock.
func (c *tryCmd) take(ctx context.Context, locker *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
	if c.Wait == 0 {
		return contest.TryLock(ctx, locker, c.Name, opts...)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	return locker.Lock(ctx, c.Name, opts...)
}

// holder says for whom the tool takes a lock: the host, and the process that has called it.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%.200s:%d", host, os.Getppid())
}

// extendCmd is the subcommand extend.
type extendCmd struct {
	Name  string        `arg:"" help:"The lock's name, without the key prefix."`
	Token string        `env:"REDLOCK_TOKEN" placeholder:"TOKEN" group:"Lock" help:"What \"redlock try\" has printed."`
	TTL   time.Duration `name:"ttl" default:"30s" placeholder:"TIME" group:"Lock" help:"How long it is held from now on (default ${default})."`

	RestartGuard time.Duration `placeholder:"TIME" group:"Lock" help:"As of \"redlock try\": no TTL may be longer (default: off)."`

	JSON bool `name:"json" group:"Output" help:"Print JSON instead of the validity."`
	serverFlags
}

// Run extends a lock.
func (c *extendCmd) Run(ctx context.Context, to streams) error {
	if c.Token == "" {
		return usage(`extend needs --token or $REDLOCK_TOKEN: what "redlock try %s" has printed`, c.Name)
	}
	err := errors.Join(
		between("--ttl", c.TTL, 100*time.Millisecond, longestTTL),
		checkGuard(c.RestartGuard, c.TTL, "--ttl"),
	)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return c.use(func(on *cluster) error {
		lock, err := on.Attach(ctx, c.Name, redlock.Token(c.Token))
		if err != nil {
			return err
		}
		if err := lock.Extend(ctx, c.TTL); err != nil {
			_, _ = lock.Detach(ctx) // fails if it is lost
			return err
		}
		if err := printHeld(to.out, lock, c.JSON, lock.Remaining().Truncate(time.Millisecond).String()); err != nil {
			return err
		}
		_, err = lock.Detach(ctx)
		return err
	}, c.guard(c.RestartGuard, c.TTL))
}

// heldJSON is the JSON about a lock that was taken or extended.
type heldJSON struct {
	Name     string    `json:"name"`
	Token    string    `json:"token"`
	Fence    uint64    `json:"fence,omitempty"`
	Validity int64     `json:"validity_ms"`
	Deadline time.Time `json:"deadline"` // of the wall clock
}

// printHeld prints text about a lock that is held, or JSON.
func printHeld(w io.Writer, lock *redlock.Lock, asJSON bool, text string) error {
	if !asJSON {
		_, err := fmt.Fprintln(w, text)
		return err
	}
	left := lock.Remaining()
	return display.JSON(w, heldJSON{lock.Name(), string(lock.Token()), lock.Fence(), left.Milliseconds(), time.Now().Add(left)}, "")
}
