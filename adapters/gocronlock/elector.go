package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/quorumlock/adapters/internal/hold"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/redlock"
)

var _ gocron.Elector = (*Elector)(nil)

// ErrNotLeader means that this instance is not the leader.
var ErrNotLeader = errors.New("gocronlock: this instance is not the leader")

const (
	electorPause  = time.Second // after a loss, or an error: another instance gets its chance
	electorOutage = 10 * time.Second
)

// Elector is a [gocron.Elector]: of all instances the leader runs the jobs. Make one with [NewElector]. It is safe for concurrent use.
type Elector struct {
	locker  *redlock.Locker
	name    string
	options options

	lock   atomic.Pointer[redlock.Lock] // of the leader
	cancel context.CancelFunc
	done   chan struct{}
}

// NewElector returns an Elector for gocron.WithDistributedElector, which campaigns in the background: it waits for the lock of the
// name and is the leader from then on until it loses the lock. Then it campaigns again. It ends when ctx ends or with Close. The
// instances of a program use the same name, which has [NamePrefix] in front of it as the name of a job has. So it must not be the
// name of a job that has a Locker.
//
// A name or an option that is wrong is redlock.ErrInvalid. No other error comes from here: OnError is told them.
func NewElector(ctx context.Context, locker *redlock.Locker, name string, opts ...Option) (*Elector, error) {
	o, err := newOptions(locker, opts)
	if err != nil {
		return nil, err
	}
	if o.atLeast != nil {
		return nil, invalid.Errorf("gocronlock: AtLeast is for New, not for NewElector")
	}
	if name == "" {
		return nil, invalid.Errorf("gocronlock: the name of the Elector is empty")
	}
	// Defaults of the redlock.Locker are for callers that give up.
	o.lock = slices.Concat([]redlock.LockOption{redlock.MaxWait(redlock.NoLimit), redlock.MaxOutage(electorOutage)}, o.lock)
	if err := hold.Check(locker, (*redlock.Locker).Lock, NamePrefix+name, o.lock...); err != nil {
		return nil, fmt.Errorf("gocronlock: %w", err)
	}
	e := &Elector{locker: locker, name: name, options: o, done: make(chan struct{})}
	ctx, e.cancel = context.WithCancel(ctx)
	go e.campaign(ctx)
	return e, nil
}

func (e *Elector) campaign(ctx context.Context) {
	defer close(e.done)
	for ctx.Err() == nil {
		lock, err := e.locker.Lock(ctx, NamePrefix+e.name, e.options.lock...)
		if err == nil {
			e.lock.Store(lock)
			select {
			case <-lock.Done():
			case <-ctx.Done():
			}
			e.lock.Store(nil)
			lost := lock.Err()
			e.tell(ctx, lost) // at once: the release may take its time
			if err = hold.Release(ctx, lock); lost != nil {
				err = nil
			}
		}
		e.tell(ctx, err)
		if errors.Is(err, redlock.ErrClosed) {
			return
		}
		select {
		case <-time.After(electorPause):
		case <-ctx.Done():
		}
	}
}

// tell tells of a loss, and of what keeps the Elector from campaigning.
func (e *Elector) tell(ctx context.Context, err error) {
	if err == nil || errors.Is(err, redlock.ErrTaken) || ctx.Err() != nil && !errors.Is(err, redlock.ErrNotHeld) {
		return
	}
	e.options.onError(e.name, err)
}

// IsLeader returns nil if this instance is the leader, and otherwise [ErrNotLeader]. It asks no server and never waits. An instance
// that has lost its lock, or whose lock has expired because no server answers, is no leader from that moment on.
func (e *Elector) IsLeader(context.Context) error {
	if lock := e.lock.Load(); lock == nil || lock.Err() != nil {
		return ErrNotLeader
	}
	return nil
}

// Context returns a child of parent that ends when this instance ceases to be the leader, with the reason as its cause. A job whose
// run may outlast the leadership uses it. If this instance is not the leader, the context has ended already. The CancelFunc frees
// its resources.
func (e *Elector) Context(parent context.Context) (context.Context, context.CancelFunc) {
	lock := e.lock.Load()
	if lock == nil {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(ErrNotLeader)
		return ctx, func() {}
	}
	return lock.Context(parent)
}

// Close ends the campaign. A leader resigns: another instance can be the leader at once, so call Close when the scheduler is shut
// down and its jobs have ended, and before Close of the redlock.Locker. It takes the node timeout at most. The error is always nil,
// and closing twice is fine.
func (e *Elector) Close() error {
	e.cancel()
	<-e.done
	return nil
}
