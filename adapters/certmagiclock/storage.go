package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/quorumlock/quorumlock/adapters/internal/hold"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/redlock"
)

// Storage is a storage of certmagic with other locks. Make it with [New]. All methods that are not listed here are those of the
// wrapped storage. It is safe for concurrent use.
type Storage struct {
	certmagic.Storage
	locker  *redlock.Locker
	options []redlock.LockOption // of each lock

	mu     sync.Mutex
	locks  map[string][]*held // that have not been unlocked, the oldest first
	ending int                // locks that are being released
	fewer  chan struct{}      // is closed when there is one less
}

// held is what one call of Unlock is for.
type held struct {
	lock     *redlock.Lock   // RenewLockLease puts another into the place of one that was lost; guarded by Storage.mu
	unlocked context.Context // ends with Unlock
	unlock   context.CancelFunc
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New wraps a storage. The locker stays the caller's, and may serve others too. The options are for all its locks, such as
// redlock.TTL. A lock is renewed until Unlock, whatever the Locker's default is, unless redlock.RenewFor is among them. A storage or a
// locker that is nil is redlock.ErrInvalid, and so is an option that redlock.Locker.TryLock refuses, redlock.Shared, redlock.Slots or
// redlock.Reentrant.
func New(storage certmagic.Storage, locker *redlock.Locker, opts ...redlock.LockOption) (*Storage, error) {
	switch {
	case storage == nil:
		return nil, invalid.Errorf("certmagiclock: nil storage")
	case locker == nil:
		return nil, invalid.Errorf("certmagiclock: nil locker")
	}
	if wrapped, ok := storage.(*Storage); ok {
		return nil, invalid.Errorf("certmagiclock: %s has these locks already", wrapped)
	}
	opts = hold.Renewed(opts)
	if err := hold.Check(locker, (*redlock.Locker).TryLock, "name", opts...); err != nil {
		return nil, fmt.Errorf("certmagiclock: %w", err)
	}
	return &Storage{
		Storage: storage, locker: locker, options: opts, locks: map[string][]*held{}, fewer: make(chan struct{}),
	}, nil
}

// Unwrap returns the storage that was given to New.
func (s *Storage) Unwrap() certmagic.Storage { return s.Storage }

// String names the wrapped storage, for logs.
func (s *Storage) String() string {
	if named, ok := s.Storage.(fmt.Stringer); ok {
		return "certmagiclock over " + named.String()
	}
	return fmt.Sprintf("certmagiclock over %T", s.Storage)
}

// Lock waits for the lock of a name until ctx ends, and renews it until Unlock. The defaults redlock.MaxWait and redlock.MaxOutage of
// the Locker have no effect, and redlock.ErrNoQuorum ends no wait, as certmagic gives up after an error. The errors are those of
// redlock.Locker.Lock.
func (s *Storage) Lock(ctx context.Context, name string) error {
	lock, err := s.wait(ctx, name)
	if err != nil {
		return err
	}
	s.add(name, lock)
	return nil
}

const pause = time.Second // after servers that let nobody lock

func (s *Storage) wait(ctx context.Context, name string) (*redlock.Lock, error) {
	for {
		lock, err := s.locker.Lock(ctx, name, append(slices.Clip(s.options), redlock.MaxWait(redlock.NoLimit), redlock.MaxOutage(redlock.NoLimit))...)
		if !errors.Is(err, redlock.ErrNoQuorum) || ctx.Err() != nil {
			return lock, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// TryLock is Lock for a caller who does not wait. It returns false without an error if others hold the lock. Of callers that try at the
// same instant one gets the lock, all but certainly. The errors are the others of redlock.Locker.TryLock, such as ErrNoQuorum.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lock, err := s.locker.TryLock(ctx, name, s.options...)
	if errors.Is(err, redlock.ErrTaken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.add(name, lock)
	return true, nil
}

// Unlock releases the lock of a name. An error means that the lock was lost before (redlock.ErrLost). A release that too few servers
// confirmed is no error: the lock was held until then, and is free when its TTL ends at the latest. Whatever the error, the lock is
// over, and another Unlock is for another lock. A RenewLockLease that waits ends. Without a Lock the error is ErrNotHeld.
//
// certmagic does not say whose lock it means. So, if a lock was lost and its name was locked again in this Storage before Unlock,
// the first Unlock is taken for that of the lost one. The other lock is released by the second.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	lock := s.remove(name)
	if lock == nil {
		return notLocked(name)
	}
	defer s.end()
	return hold.Release(ctx, lock)
}

func notLocked(name string) error {
	return fmt.Errorf("certmagiclock: %q is not locked here: %w", name, redlock.ErrNotHeld)
}

// RenewLockLease returns nil if the lock of a name is held. The duration has no effect: a lock is renewed until Unlock, whatever
// its TTL. If it is lost, RenewLockLease waits for it again, as Lock does: this is right for certmagic, which begins an attempt
// then, and looks first whether another instance has done the work. The errors are those of Lock, and ErrNotHeld without a Lock or
// after an Unlock meanwhile, which leaves no lock.
//
// As for Unlock, certmagic does not say whose lock it means: if a lock was lost and its name was locked again in this Storage before
// Unlock, RenewLockLease confirms the later lock to both, who may work at the same time.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	h, lock := s.last(name)
	if h == nil {
		return notLocked(name)
	}
	if lock.Err() == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.unlocked, cancel)()
	again, err := s.wait(ctx, name)
	switch {
	case err == nil && s.replace(h, again):
		return nil
	case err == nil:
		defer s.end()
		return errors.Join(notLocked(name), hold.Release(ctx, again))
	case h.unlocked.Err() != nil:
		return notLocked(name)
	}
	return fmt.Errorf("certmagiclock: %w; it was not acquired again: %w", lock.Err(), err)
}

// Wait returns when every lock of this Storage has been unlocked, or with ctx.Err(). It does not wait for calls of Lock that wait
// themselves: closing the Locker ends those.
func (s *Storage) Wait(ctx context.Context) error {
	for {
		s.mu.Lock()
		none, fewer := len(s.locks)+s.ending == 0, s.fewer
		s.mu.Unlock()
		if none {
			return nil
		}
		select {
		case <-fewer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Storage) add(name string, lock *redlock.Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &held{lock: lock}
	h.unlocked, h.unlock = context.WithCancel(context.Background())
	s.locks[name] = append(s.locks[name], h)
}

// remove takes the oldest lock of a name. There is more than one if the older ones were lost.
func (s *Storage) remove(name string) *redlock.Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.locks[name]
	if len(of) == 0 {
		return nil
	}
	if s.locks[name] = of[1:]; len(of) == 1 {
		delete(s.locks, name)
	}
	s.ending++
	of[0].unlock()
	return of[0].lock
}

// end takes it that a lock that was removed has been released.
func (s *Storage) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending--
	close(s.fewer)
	s.fewer = make(chan struct{})
}

// last returns the newest hold of a name and its lock, or nil.
func (s *Storage) last(name string) (*held, *redlock.Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.locks[name]; len(of) > 0 {
		h := of[len(of)-1]
		return h, h.lock
	}
	return nil, nil
}

// replace puts a lock into the place of one that was lost. After an Unlock it returns false: the caller releases the lock, and ends.
func (s *Storage) replace(h *held, lock *redlock.Lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.unlocked.Err() != nil {
		s.ending++
		return false
	}
	h.lock = lock
	return true
}
