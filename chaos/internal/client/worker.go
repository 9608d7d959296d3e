package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// Worker makes one call after the other, and records them.
type Worker struct {
	*process
	recorder *history.Recorder
	number   int
	names    []string // that it takes
	made     int      // holds, and values of registers
	Dice     *rand.Rand
}

// Hold is a lock that a worker has.
type Hold struct {
	*redlock.Lock
	ID   string
	over bool // an Over is recorded
}

// work takes turns. A name that is listed more often is taken more often. No turn begins after turns has ended, and what they do
// ends with ctx.
func (w *Worker) work(ctx, turns context.Context) {
	for {
		name := w.names[w.Dice.IntN(len(w.names))]
		first, _, _ := strings.Cut(name, "-")
		kind := w.kinds[first]
		if w.Wait(turns, kind.Pause); turns.Err() != nil {
			return
		}
		kind.Turn(ctx, w, name)
	}
}

// Wait waits for some time up to most, or until ctx ends.
func (w *Worker) Wait(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(time.Duration(w.Dice.Int64N(int64(most) + 1)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// OneIn is true once in n times.
func (w *Worker) OneIn(n int) bool { return w.Dice.IntN(n) == 0 }

// TTL returns one of the TTLs of the run.
func (w *Worker) TTL() time.Duration { return w.config.TTLs[w.Dice.IntN(len(w.config.TTLs))] }

// Shortest returns the shortest of them.
func (w *Worker) Shortest() time.Duration { return w.config.TTLs[0] }

// Role is a number from 0 to n-1. Workers of all roles have a kind that has n workers of its own.
func (w *Worker) Role(n int) int { return w.number % n }

// Longest returns the longest of them.
func (w *Worker) Longest() time.Duration { return w.config.TTLs[len(w.config.TTLs)-1] }

func (w *Worker) begin(op history.Op) *history.Op {
	op.Worker = w.number
	return w.recorder.Begin(op)
}

// end records the end of a call with its error.
func (w *Worker) end(ctx context.Context, op *history.Op, err error) {
	op.Err = w.textOf(ctx, err)
	w.recorder.End(op)
}

// Call is a call of Lock, TryLock or Do.
type Call struct {
	Way     string // of package history
	TTL     time.Duration
	Renews  bool
	Reads   bool
	Slots   int      // how many slots there are; 0: it is not to have one
	Outer   *Hold    // of a call by re-entry
	Names   []string // of LockAll
	Options []redlock.LockOption
}

func (c Call) options() []redlock.LockOption {
	options := append([]redlock.LockOption{redlock.TTL(c.TTL)}, c.Options...)
	if c.Renews {
		options = append(options, redlock.RenewFor(redlock.NoLimit))
	}
	if c.Outer != nil {
		options = append(options, redlock.Reentrant())
	}
	return options
}

// taking are the options of a call that takes a lock.
func (c Call) taking() []redlock.LockOption {
	switch {
	case c.Slots > 0:
		return append(c.options(), redlock.Slots(c.Slots))
	case c.Reads:
		return append(c.options(), redlock.Shared())
	}
	return c.options()
}

func (w *Worker) beginCall(kind history.Kind, name string, c Call) (*redlock.Locker, *history.Op) {
	k, _, _ := strings.Cut(name, "-")
	locker, id := w.locker(k)
	op := history.Op{
		Kind: kind, Name: name, Locker: id, Way: c.Way, Names: c.Names, TTL: int64(c.TTL), Renews: c.Renews, Reads: c.Reads, Slots: c.Slots,
	}
	if c.Outer != nil {
		op.Outer = c.Outer.ID
	}
	return locker, w.begin(op)
}

// got records that a call has got a lock.
func (w *Worker) got(op *history.Op, lock *redlock.Lock) *Hold {
	w.made++
	h := &Hold{Lock: lock, ID: fmt.Sprintf("%s/%d/%d", w.config.Name, w.number, w.made)}
	op.Hold, op.Fence, op.Validity = h.ID, lock.Fence(), int64(lock.Remaining())
	op.Reads = lock.Kind() == redlock.KindShared // not if a writer has taken it again
	if lock.Kind() != redlock.KindSlot {         // but a lock that was attached to
		op.Slots = 0
	}
	w.recorder.End(op)
	return h
}

// Acquire calls Lock or TryLock. It returns nil if the lock was not got.
func (w *Worker) Acquire(ctx context.Context, name string, c Call) *Hold {
	locker, op := w.beginCall(history.Acquire, name, c)
	take := locker.Lock
	if c.Way == history.Trying {
		take = locker.TryLock
	}
	lock, err := take(ctx, name, c.taking()...)
	if err != nil {
		w.end(ctx, op, err)
		return nil
	}
	return w.got(op, lock)
}

// AcquireAll calls LockAll, or TryLockAll if it is to try. Each name has an operation. It returns nil if the locks were not got.
func (w *Worker) AcquireAll(ctx context.Context, names []string, c Call, try bool) (holds []*Hold) {
	c.Way = history.Together
	if !try {
		c.Names = names
	}
	locker, ops := (*redlock.Locker)(nil), make([]*history.Op, len(names))
	for i, name := range names {
		locker, ops[i] = w.beginCall(history.Acquire, name, c)
	}
	lock := locker.LockAll
	if try {
		lock = locker.TryLockAll
	}
	locks, err := lock(ctx, names, c.options()...)
	var refusal *redlock.QuorumError
	for i, name := range names {
		switch {
		case err == nil:
			holds = append(holds, w.got(ops[i], locks.Get(name)))
		case errors.As(err, &refusal) && refusal.Names != nil && !slices.Contains(refusal.Names, name):
			ops[i].Err = history.Canceled // another name was in the way
			w.recorder.End(ops[i])
		default:
			w.end(ctx, ops[i], err)
		}
	}
	return holds
}

// Others returns some names of the same kind, that one among them, in any order.
func (w *Worker) Others(name string, n int) []string {
	kind, _, _ := strings.Cut(name, "-")
	names := []string{name}
	for len(names) < n {
		other := w.names[w.Dice.IntN(len(w.names))]
		if strings.HasPrefix(other, kind+"-") && !slices.Contains(names, other) {
			names = append(names, other)
		}
	}
	w.Dice.Shuffle(n, func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// Do calls Do. Its function is recorded as a hold, and its end as an Unlock.
func (w *Worker) Do(ctx context.Context, name string, c Call, fn func(context.Context, *Hold)) {
	c.Renews = false // it is said without the option
	options := c.taking()
	c.Renews = true
	locker, op := w.beginCall(history.Acquire, name, c)
	var unlock *history.Op
	held := func(ctx context.Context, lock *redlock.Lock) error {
		h := w.got(op, lock)
		fn(ctx, h)
		w.Prove(h)
		unlock = w.begin(history.Op{Kind: history.Unlock, Name: name, Hold: h.ID})
		return nil
	}
	err := locker.Do(ctx, name, held, options...)
	if unlock == nil {
		unlock = op
	}
	w.end(ctx, unlock, err)
}

// Prove records that the lock is held, or that it is over.
func (w *Worker) Prove(h *Hold) (held bool) {
	now := history.Now()
	err := h.Err()
	if err != nil && h.over {
		return false
	}
	op := history.Op{Kind: history.Proof, Worker: w.number, Name: h.Name(), Hold: h.ID, Start: now, End: now}
	if err != nil {
		h.over = true
		op.Kind, op.Err = history.Over, w.textOf(context.Background(), err)
		op.Start = history.Now()
		op.End = op.Start
	}
	w.recorder.Note(op)
	return err == nil
}

// Extend calls Extend.
func (w *Worker) Extend(ctx context.Context, h *Hold, ttl time.Duration) {
	op := w.begin(history.Op{Kind: history.Extend, Name: h.Name(), Hold: h.ID, TTL: int64(ttl)})
	w.end(ctx, op, h.Extend(ctx, ttl))
}

// Unlock calls Unlock.
func (w *Worker) Unlock(ctx context.Context, h *Hold) {
	op := w.begin(history.Op{Kind: history.Unlock, Name: h.Name(), Hold: h.ID})
	w.end(ctx, op, h.Unlock(ctx))
}

// Detach gives the lock away, to any process that looks for it by Attach.
func (w *Worker) Detach(ctx context.Context, h *Hold) {
	op := w.begin(history.Op{Kind: history.Detach, Name: h.Name(), Hold: h.ID})
	token, err := h.Detach(ctx)
	op.Token = string(token)
	w.end(ctx, op, err)
	if err == nil {
		file := fmt.Sprintf("%s.%x.detached", h.Name(), w.Dice.Uint64())
		if err := os.WriteFile(filepath.Join(w.config.Dir, file), []byte(token), 0o600); err != nil {
			panic(err)
		}
	}
}

// Attach takes up a lock of that name that somebody has detached. It returns nil if there is none, or it is over.
func (w *Worker) Attach(ctx context.Context, name string, c Call) *Hold {
	files, err := filepath.Glob(filepath.Join(w.config.Dir, name+".*.detached"))
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		mine := file + "." + strings.ReplaceAll(w.config.Name, "/", "-")
		if os.Rename(file, mine) != nil {
			continue // another has it
		}
		token, err := os.ReadFile(mine)
		if err != nil || len(token) == 0 || os.Remove(mine) != nil {
			continue
		}
		locker, op := w.beginCall(history.Attach, name, c)
		op.Token = string(token)
		lock, err := locker.Attach(ctx, name, redlock.Token(token), c.options()...)
		if err != nil {
			w.end(ctx, op, err)
			return nil
		}
		return w.got(op, lock)
	}
	return nil
}

// Force calls ForceUnlock.
func (w *Worker) Force(ctx context.Context, name string) {
	locker, op := w.beginCall(history.Force, name, Call{})
	_, err := locker.ForceUnlock(ctx, name)
	w.end(ctx, op, err)
}

// textOf returns the result of a call as package history names it.
func (w *Worker) textOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, fence.ErrStale):
		return history.Stale
	case errors.Is(err, redlock.ErrReleased):
		return history.Released
	case errors.Is(err, redlock.ErrGone):
		return history.Gone
	case errors.Is(err, redlock.ErrExpired):
		return history.Expired
	case errors.Is(err, redlock.ErrNotHeld):
		return history.NotHeld
	case errors.Is(err, redlock.ErrClosed):
		return history.Closed
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return history.Canceled
	case errors.Is(err, redlock.ErrTaken):
		return history.Taken
	case errors.Is(err, redlock.ErrForeign):
		return history.Foreign
	case errors.Is(err, redlock.ErrNoQuorum):
		return history.NoQuorum
	}
	return err.Error()
}
