package gooselock

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/quorumlock/quorumlock/adapters/internal/hold"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/redlock"
)

var _ lock.Locker = (*Locker)(nil)

// NamePrefix is in front of the name of the lock: that of the database shop is goose:shop, and its key has the prefix of
// redlock.WithKeyPrefix in front of that.
const NamePrefix = "goose:"

// Option changes how a [Locker] works. One that is out of range is redlock.ErrInvalid.
type Option interface{ apply(*options) }

type option func(*options)

func (f option) apply(o *options) { f(o) }

type options struct {
	onLoss func(error)
	lock   []redlock.LockOption
}

// OnLoss sets the function that is told, while goose works, that the lock was found lost. The error is that of redlock.Lock.Err:
// redlock.ErrExpired or redlock.ErrGone. f must not block. The default, also for nil, does nothing: Unlock returns the loss in any
// case. The cancel function of context.WithCancelCause is one that stops goose.
func OnLoss(f func(error)) Option { return option(func(o *options) { o.onLoss = f }) }

// LockOptions adds options for the lock, such as redlock.TTL, redlock.Metadata or redlock.MaxWait, which limits the wait for another
// instance. By default the TTL is that of the redlock.Locker, 10 s, and the lock is renewed until Unlock, whatever the Locker says.
// redlock.Shared, redlock.Slots and redlock.Reentrant are redlock.ErrInvalid: several instances would migrate at once.
func LockOptions(opts ...redlock.LockOption) Option {
	return option(func(o *options) { o.lock = append(o.lock, opts...) })
}

// Locker is a [lock.Locker] of goose. Make one with [New]. It is safe for concurrent use: of several providers that share it, one
// works at a time.
type Locker struct {
	locker  *redlock.Locker
	name    string
	options options

	busy chan struct{} // has a value from a Lock that succeeded to its Unlock
	mu   sync.Mutex
	held *redlock.Lock
}

// New returns a Locker for goose.WithLocker. database names what is migrated: all that migrate it use the same name, and others
// do not. It has from 1 to 506 bytes and no control characters. It becomes part of the name of the lock: see [NamePrefix]. New asks no
// server. The redlock.Locker stays the caller's.
//
// A name or an option that is out of range is redlock.ErrInvalid.
func New(locker *redlock.Locker, database string, opts ...Option) (*Locker, error) {
	l := &Locker{locker: locker, name: NamePrefix + database, busy: make(chan struct{}, 1)}
	if locker == nil {
		return nil, invalid.Errorf("gooselock: the redlock.Locker is nil")
	}
	if database == "" {
		return nil, invalid.Errorf("gooselock: the name of the database is empty")
	}
	for _, opt := range opts {
		if opt == nil {
			return nil, invalid.Errorf("gooselock: nil option")
		}
		opt.apply(&l.options)
	}
	l.options.lock = hold.Renewed(l.options.lock)
	if err := hold.Check(locker, (*redlock.Locker).Lock, l.name, l.options.lock...); err != nil {
		return nil, fmt.Errorf("gooselock: %w", err)
	}
	return l, nil
}

// Lock implements [lock.Locker]. It waits until no other instance has the lock, and until ctx ends, which is that of the call of
// goose, or redlock.MaxWait at most. MaxWait does not limit the wait for another provider that shares this Locker: ctx alone does. The
// errors are those of redlock.Locker.Lock, and ctx.Err() of a wait for another provider.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	select {
	case l.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	held, err := l.locker.Lock(ctx, l.name, l.options.lock...)
	if err != nil {
		<-l.busy
		return fmt.Errorf("gooselock: %w", err)
	}
	l.mu.Lock()
	l.held = held
	l.mu.Unlock()
	if l.options.onLoss != nil {
		hold.OnLoss(held, l.options.onLoss)
	}
	return nil
}

// Unlock implements [lock.Locker]. If the lock was lost while goose worked, so that another instance may have worked beside it, the
// error matches redlock.ErrLost, and goose returns it. A release that too few servers confirmed is no error: the lock was held
// until then, and is free after its TTL at the latest.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	if held == nil {
		return fmt.Errorf("gooselock: Unlock without Lock: %w", redlock.ErrReleased)
	}
	defer func() { <-l.busy }()
	if err := hold.Release(ctx, held); err != nil {
		return fmt.Errorf("gooselock: the lock was lost, and another may have migrated the database at the same time: %w", err)
	}
	return nil
}
