package redlock

import (
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/redlock/event"
)

// maxTogether is the highest number of names in a call. One command carries all of them, and a server does nothing else
// meanwhile.
const maxTogether = 64

// TryLockAll is [Locker.TryLock] for 1 to 64 different names, in any order: all or none. A node grants all names in one
// step. Each is then a lock of its own, with its own fencing token.
//
// It returns the errors of TryLock. Names in the [*QuorumError] are the names that others hold. [Reentrant], [Shared]
// and [Slots] are [ErrInvalid].
func (l *Locker) TryLockAll(ctx context.Context, names []string, opts ...LockOption) (*Locks, error) {
	return l.takeAll(ctx, names, opts, true)
}

// LockAll waits like [Locker.Lock] until it holds the locks of all names, given in any order.
//
// While it waits, LockAll holds nothing. If others keep getting in between, it takes the locks one by one, in order,
// after four attempts. It gives them back after a quarter of the TTL or 5 s at most. If holders keep each name for
// longer, use a longer TTL, or one name for all.
//
// It returns the errors of Lock and [Locker.TryLockAll].
func (l *Locker) LockAll(ctx context.Context, names []string, opts ...LockOption) (*Locks, error) {
	return l.takeAll(ctx, names, opts, false)
}

// takeAll takes the locks of several names, or none of them. try means that the call does not wait.
func (l *Locker) takeAll(ctx context.Context, names []string, opts []LockOption, try bool) (locks *Locks, err error) {
	all, err := l.requests(names, opts)
	if err != nil {
		return nil, err
	}
	defer l.engine.End()
	if try, err = all[0].tries(try); err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].call = l.newCall(ctx); all[i].call != nil {
			defer func() { l.acquired(event.OpAcquire, try, &all[i], locks.at(i), err) }()
		}
	}
	for i := range all {
		if h, _ := l.held(ctx, &all[i]); h != nil {
			return nil, failed(event.OpAcquire, all[i].name, ErrDeadlock)
		}
	}
	if ctx.Err() != nil {
		return nil, failed(event.OpAcquire, all[0].name, ended(ctx))
	}
	limited, stop := ctx, func() {}
	if !try {
		limited, stop = l.limit(ctx, &all[0])
		l.waiting.Add(1)
		defer l.waiting.Add(-1)
	}
	defer stop()
	if locks, err = l.together(all, try).take(limited); err != nil {
		l.logBlocked(err)
		return nil, err
	}
	for i, lock := range locks.locks {
		locks.locks[i] = l.watched(lock, &all[i])
	}
	return locks, nil
}

// requests checks the arguments of a call for several names, and returns its requests in the order of the names. On
// success it counts the call, until engine.End.
func (l *Locker) requests(names []string, opts []LockOption) ([]request, error) {
	sorted := slices.Sorted(slices.Values(names))
	switch {
	case len(names) == 0:
		return nil, failed(event.OpAcquire, "", invalid("no names were given (1 to %d)", maxTogether))
	case len(names) > maxTogether:
		return nil, failed(event.OpAcquire, sorted[0], invalid("%d names were given (1 to %d)", len(names), maxTogether))
	}
	all := make([]request, 0, len(names))
	for i, name := range sorted {
		var req request
		err := l.request(&req, name, opts)
		switch {
		case err != nil:
		case i > 0 && name == sorted[i-1]:
			err = invalid("the name %q is given twice", name)
		case req.Kind.Several():
			err = invalid("%s: the locks of several names are exclusive", req.kindOption())
		case req.reentrant:
			err = invalid("Reentrant: of several locks some could be those of another call")
		}
		if err != nil {
			return nil, failed(event.OpAcquire, name, err)
		}
		req.Kept, req.names = true, sorted
		all = append(all, req)
	}
	if !l.engine.Begin() {
		return nil, failed(event.OpAcquire, sorted[0], ErrClosed)
	}
	return all, nil
}
