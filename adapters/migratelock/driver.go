package migratelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/quorumlock/quorumlock/adapters/internal/hold"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/redlock"
)

// NamePrefix is in front of the name of the lock: that of the database shop is migrate:shop, and its key has the prefix of
// redlock.WithKeyPrefix in front of that.
const NamePrefix = "migrate:"

const (
	defaultWait = 10 * time.Second
	late        = time.Second // after Wait a lock is not used any more
)

// Option changes how a [Driver] works. One that is out of range is redlock.ErrInvalid.
type Option interface{ apply(*options) }

type option func(*options)

func (f option) apply(o *options) { f(o) }

type options struct {
	wait   time.Duration
	onLoss func(error)
	lock   []redlock.LockOption
}

// Wait limits how long Lock waits for another instance. The default is 10 s. d must be at least two seconds below the LockTimeout
// of the migrate.Migrate, which is migrate.DefaultLockTimeout, 15 s, by default: see "Waiting" in the package comment. 0 tries once.
func Wait(d time.Duration) Option { return option(func(o *options) { o.wait = d }) }

// OnLoss sets the function that is told, while migrate works, that the lock was found lost. The error is that of redlock.Lock.Err:
// redlock.ErrExpired or redlock.ErrGone. f must not block. The default, also for nil, does nothing: Unlock returns the loss in any
// case.
func OnLoss(f func(error)) Option { return option(func(o *options) { o.onLoss = f }) }

// LockOptions adds options for the lock, such as redlock.TTL or redlock.Metadata. By default the TTL is that of the
// redlock.Locker, 10 s, and the lock is renewed until Unlock, whatever the Locker says. redlock.MaxWait is always added: see [Wait].
// redlock.Shared, redlock.Slots and redlock.Reentrant are redlock.ErrInvalid: several instances would migrate at once.
func LockOptions(opts ...redlock.LockOption) Option {
	return option(func(o *options) { o.lock = append(o.lock, opts...) })
}

// Driver is a driver of migrate with another lock. Make it with [New]. All methods that are not listed here are those of the wrapped
// driver. One migrate.Migrate uses it at a time.
type Driver struct {
	database.Driver
	locker  *redlock.Locker
	name    string
	options options

	ctx   context.Context // ends with Close
	close context.CancelFunc
	work  sync.WaitGroup // changes of the database, which begin with mu

	mu   sync.Mutex
	busy bool // Lock waits, or has the lock
	held *redlock.Lock
}

// New wraps a driver, for migrate.NewWithDatabaseInstance and migrate.NewWithInstance. name is that of what is migrated: all that
// migrate it use the same name, and others do not. It has from 1 to 504 bytes and no control characters. It becomes part of the
// name of the lock: see [NamePrefix]. New asks no server. The redlock.Locker stays the caller's.
//
// A name or an option that is out of range is redlock.ErrInvalid.
func New(driver database.Driver, locker *redlock.Locker, name string, opts ...Option) (*Driver, error) {
	o := options{wait: defaultWait}
	switch {
	case driver == nil:
		return nil, invalid.Errorf("migratelock: the driver is nil")
	case locker == nil:
		return nil, invalid.Errorf("migratelock: the redlock.Locker is nil")
	case name == "":
		return nil, invalid.Errorf("migratelock: the name is empty")
	}
	for _, opt := range opts {
		if opt == nil {
			return nil, invalid.Errorf("migratelock: nil option")
		}
		opt.apply(&o)
	}
	o.lock = append(hold.Renewed(o.lock), redlock.MaxWait(o.wait))
	if err := hold.Check(locker, (*redlock.Locker).Lock, NamePrefix+name, o.lock...); err != nil {
		return nil, fmt.Errorf("migratelock: %w", err)
	}
	return newDriver(driver, locker, NamePrefix+name, o), nil
}

func newDriver(driver database.Driver, locker *redlock.Locker, name string, o options) *Driver {
	d := &Driver{Driver: driver, locker: locker, name: name, options: o}
	d.ctx, d.close = context.WithCancel(context.Background())
	return d
}

// Open opens another driver, as Open of the wrapped driver does, with the same lock. It is for database.Register under a name such as
// redlock+sqlite, with URLs like redlock+sqlite://shop.db: the wrapped driver gets the URL without what is in front of its own scheme,
// here sqlite://shop.db. A scheme without a plus stays as it is.
func (d *Driver) Open(url string) (database.Driver, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	if _, own, ours := strings.Cut(scheme, "+"); ours {
		url = own + ":" + rest
	}
	driver, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	return newDriver(driver, d.locker, d.name, d.options), nil
}

// Lock waits until no other instance has the lock, and for [Wait] at most: then the error matches database.ErrLocked and
// redlock.ErrTaken. It matches database.ErrLocked alone if this Driver has the lock already or waits for it. The other errors are those
// of redlock.Locker.Lock: redlock.ErrNoQuorum means that too few servers answered.
func (d *Driver) Lock() error {
	d.mu.Lock()
	busy := d.busy
	d.busy = true
	d.mu.Unlock()
	if busy {
		return fmt.Errorf("migratelock: %w: by this driver", database.ErrLocked)
	}
	begin := time.Now()
	lock, err := d.locker.Lock(d.ctx, d.name, d.options.lock...)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		switch took := time.Since(begin); {
		case d.ctx.Err() != nil:
			err = d.ctx.Err()
		case took-late > d.options.wait: // not a sum, which may overflow
			err = fmt.Errorf("%w, but after %v, and migrate may have given up: it is released", redlock.ErrTaken, took)
		}
		if err == nil {
			d.held = lock
			if d.options.onLoss != nil {
				hold.OnLoss(lock, d.options.onLoss)
			}
			return nil
		}
		_ = lock.Unlock(d.ctx)
	}
	d.busy = false
	if errors.Is(err, redlock.ErrTaken) {
		return fmt.Errorf("migratelock: %w: %w", database.ErrLocked, err)
	}
	return fmt.Errorf("migratelock: %w", err)
}

// Unlock releases the lock. If it was lost while migrate worked, so that another instance may have worked beside it, the error
// matches redlock.ErrLost, and migrate returns it. After an error of Unlock each later call of the migrate.Migrate is
// migrate.ErrLocked. A release that too few servers confirmed is no error: the lock was held until then, and is free after its
// TTL at the latest. Without a lock the error is database.ErrNotLocked.
func (d *Driver) Unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	lock := d.held
	if lock == nil {
		return fmt.Errorf("migratelock: %w", database.ErrNotLocked)
	}
	d.held, d.busy = nil, false
	if err := hold.Release(context.Background(), lock); err != nil { // it takes the node timeout at most
		return fmt.Errorf("migratelock: the lock was lost, and another may have migrated the database at the same time: %w", err)
	}
	return nil
}

// SetVersion is that of the wrapped driver, until Close or until the lock is lost: then it returns the loss, and changes nothing. So a
// migration that runs at that time leaves the database dirty, as another instance may have migrated it since.
func (d *Driver) SetVersion(version int, dirty bool) error {
	return d.change(func() error { return d.Driver.SetVersion(version, dirty) })
}

// Run is that of the wrapped driver, until Close or until the lock is lost, as SetVersion.
func (d *Driver) Run(migration io.Reader) error {
	return d.change(func() error { return d.Driver.Run(migration) })
}

// Drop is that of the wrapped driver, until Close or until the lock is lost, as SetVersion.
func (d *Driver) Drop() error { return d.change(d.Driver.Drop) }

// change calls f, which changes the database, unless the lock is known to be lost. Close waits for it.
func (d *Driver) change(f func() error) error {
	d.mu.Lock()
	if err := d.ctx.Err(); err != nil {
		d.mu.Unlock()
		return fmt.Errorf("migratelock: the driver is closed: %w", err)
	}
	if d.held != nil && d.held.Err() != nil {
		err := d.held.Err()
		d.mu.Unlock()
		return fmt.Errorf("migratelock: the database is left as it is: %w", err)
	}
	d.work.Add(1)
	d.mu.Unlock()
	defer d.work.Done()
	return f()
}

// Close closes the wrapped driver. It ends a Lock that waits, and releases the lock, if migrate has not done that. It waits for what
// changes the database until then, such as a migration that runs, and lets nothing begin that does.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.close()
	d.mu.Unlock()
	closed := d.Driver.Close() // that of SQLite returns while a statement runs
	d.work.Wait()
	err := d.Unlock()
	if errors.Is(err, database.ErrNotLocked) {
		err = nil
	}
	return errors.Join(err, closed)
}
