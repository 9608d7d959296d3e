package redlock

import (
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/redlock/event"
)

// maxTogether is the highest number of names in a call. One command carries all of them, and a server does nothing else
// meanwhile.
const maxTogether = 64

// TryLockAll is [Locker.TryLock] for several names: the caller gets the locks of all of them, or none. Each node grants
// all names in one step or refuses all, in one round trip, and a majority must grant all. From then on the locks are
// held like locks that were taken one by one. [Locks.Unlock] releases them. A round that other callers may have split
// is repeated as in TryLock.
//
// names has from 1 to 64 names, in any order, each once. The options hold for each of the locks. With [WithFencing]
// each lock has a fencing token of its own. [Reentrant], [Shared] and [Slots] are [ErrInvalid]. If the caller already
// holds one of the names, the error is [ErrDeadlock].
//
// The errors are the same as for TryLock. In a [*QuorumError] Names has the names that others hold. In a Redis Cluster,
// and in servers like it, the names need a common hash tag. Otherwise the servers refuse the command (CROSSSLOT).
func (l *Locker) TryLockAll(ctx context.Context, names []string, opts ...LockOption) (*Locks, error) {
	return l.takeAll(ctx, names, opts, true)
}

// LockAll repeats TryLockAll until it holds the locks, as [Locker.Lock] repeats TryLock. Other calls may take the same
// names at the same time, in another order or one by one.
//
// LockAll waits for one name at a time, and has its turn there like a call of Lock. At first it holds nothing while it
// waits: on each turn it tries all names. Busy names may then be taken again and again, so after four such turns it
// goes on in the order of the names. It takes the free ones, and holds and renews them while it waits for the next. It
// does so only while that name changes hands. Otherwise it gives all locks back, and keeps its place in the line: at
// once if the name never changed hands, and after a few of its usual holds if it did, but after a quarter of the TTL or
// 5 s at most. So other calls get on, and calls that keep each other's names do not wait for ever.
//
// If each holder keeps a name for longer than a quarter of the TTL, only chance leads to the locks of several such
// names. Then use a longer TTL, or one name for all.
//
// The errors are the same as for Lock and TryLockAll. If LockAll went on in order, [RenewFor] counts from when it has
// all locks.
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
	}
	return locks, err
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
