package redlocktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/redlocktest"
)

// Biller is a small program: it sends the invoices of a month, of which no two processes may be at work at a time.
type Biller struct {
	locker *redlock.Locker
	send   func(ctx context.Context, month string) error
}

// ErrOverloaded means that another process bills the month.
var ErrOverloaded = errors.New("another process is at it")

// Bill sends all invoices of a month. It does not wait for another process that does so.
func (b *Biller) Bill(ctx context.Context, month string) error {
	err := b.locker.TryDo(ctx, "bill-"+month, func(ctx context.Context, _ *redlock.Lock) error {
		return b.send(ctx, month)
	})
	if errors.Is(err, redlock.ErrTaken) {
		return ErrOverloaded
	}
	return err
}

// sendForTenMinutes takes ten minutes, unless ctx ends before.
func sendForTenMinutes(ctx context.Context, _ string) error {
	select {
	case <-time.After(10 * time.Minute):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sendNothing has nothing to do.
func sendNothing(context.Context, string) error { return nil }

func TestBiller_KeepsTheLockForAsLongAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		first, second := Biller{cluster.Locker(), sendForTenMinutes}, Biller{cluster.Locker(), sendNothing}
		billed := make(chan error, 1)
		go func() { billed <- first.Bill(t.Context(), "2026-01") }()

		cluster.Advance(9 * time.Minute)
		if err := second.Bill(t.Context(), "2026-01"); !errors.Is(err, ErrOverloaded) {
			t.Fatal(err)
		}
		cluster.Advance(time.Minute)
		if err := <-billed; err != nil {
			t.Fatal(err)
		}
		if err := second.Bill(t.Context(), "2026-01"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBiller_StopsWhenTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		biller := Biller{cluster.Locker(), sendForTenMinutes}
		billed := make(chan error, 1)
		go func() { billed <- biller.Bill(t.Context(), "2026-01") }()

		cluster.Advance(time.Minute)      // the lock is renewed
		cluster.Steal("bill-2026-01")     // by another process
		cluster.Advance(10 * time.Second) // a renewal finds that
		if err := <-billed; !errors.Is(err, redlock.ErrLost) {
			t.Fatal(err)
		}
	})
}

func TestBiller_StopsBeforeTheTTLRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		biller := Biller{cluster.Locker(), sendForTenMinutes}
		billed := make(chan error, 1)
		go func() { billed <- biller.Bill(t.Context(), "2026-01") }()

		cluster.Advance(time.Minute)
		cluster.Stop(0, 1) // no majority renews the lock
		if err := <-billed; !errors.Is(err, redlock.ErrExpired) {
			t.Fatal(err)
		}
	})
}

func TestBiller_TakesOverFromAProcessThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		if _, err := cluster.Locker().TryLock(t.Context(), "bill-2026-01"); err != nil { // nobody renews or releases it
			t.Fatal(err)
		}
		biller := Biller{cluster.Locker(), sendNothing}
		if err := biller.Bill(t.Context(), "2026-01"); !errors.Is(err, ErrOverloaded) {
			t.Fatal(err)
		}
		cluster.Advance(10 * time.Second) // its TTL
		if err := biller.Bill(t.Context(), "2026-01"); err != nil {
			t.Fatal(err)
		}
	})
}

// What needs no moving of time needs no bubble.
func TestBiller_IsRefusedWhileAnotherProcessHoldsTheLock(t *testing.T) {
	cluster := redlocktest.New(t)
	release := cluster.Hold("bill-2026-01")
	biller := Biller{cluster.Locker(), sendNothing}
	if err := biller.Bill(t.Context(), "2026-01"); !errors.Is(err, ErrOverloaded) {
		t.Fatal(err)
	}
	release()
	if err := biller.Bill(t.Context(), "2026-01"); err != nil {
		t.Fatal(err)
	}
}

func TestBiller_NeedsAMajorityOfNodes(t *testing.T) {
	cluster := redlocktest.New(t)
	biller := Biller{cluster.Locker(), sendNothing}
	cluster.Stop(0)
	if err := biller.Bill(t.Context(), "2026-01"); err != nil {
		t.Fatal(err)
	}
	cluster.Stop(1)
	if err := biller.Bill(t.Context(), "2026-01"); !errors.Is(err, redlock.ErrNoQuorum) {
		t.Fatal(err)
	}
}
