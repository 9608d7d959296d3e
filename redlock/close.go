package redlock

import (
	"context"
	"fmt"
	"sync"
)

// A Locker ends in two steps. Close refuses later calls, ends those that wait, and waits for what is under way. What a function of Do
// still needs goes on: the renewals of its lock, its release, and the nodes. Whoever finds no function running after Close, which is
// Close itself or the last of the functions, ends that too.

// Close makes the calls that wait return with [ErrClosed], and every later call of the Locker and of Lock.Extend. It ends renewals,
// and returns when nothing of the Locker runs any more, releases included, except for functions of Do and TryDo. That takes the node
// timeout at most, and a second more for an Observer that blocks. The error is always nil. Closing twice is fine, and a function of
// Do may call Close.
//
// The contexts of these functions end, with ErrClosed as their cause. Close does not wait for functions that run. Until one returns
// its lock is renewed, so that nobody else holds it, and then it is released. [Locker.Shutdown] is Close for a program that waits for
// these functions.
//
// Other locks stay held until their deadline, or until their Unlock: call Unlock before Close. Nodes given to [New] stay open, so
// that Unlock still works; close them when Do has returned. Nodes made by [Open] are closed, when the last function has returned:
// Unlock returns [ErrNoQuorum] then, and the key stays for its TTL.
func (l *Locker) Close() error {
	l.mu.Lock()
	l.stop()
	running := l.functions > 0
	l.mu.Unlock()
	l.renewals.stop()
	l.calls.Wait()
	if !running { // nor has one begun since
		l.end()
	}
	l.events.drain(context.Background())
	return nil
}

// Shutdown is Close, and waits until the last function of Do and TryDo has returned, its lock has been released, and nodes that
// [Open] made are closed; but not for longer than ctx. Then the error is ctx.Err(), and functions that still run go on.
// Locks that were taken without Do stay held, as after Close. A function of Do that calls Shutdown waits for itself.
func (l *Locker) Shutdown(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		_ = l.Close() // always nil
		close(closed)
	}()
	for _, step := range []<-chan struct{}{closed, l.ended} {
		select {
		case <-step:
		case <-ctx.Done():
			return fmt.Errorf("redlock: shutdown: %w", ended(ctx))
		}
	}
	l.events.drain(ctx)
	return nil
}

// enter counts a call, which ends with calls.Done.
func (l *Locker) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing.Err() != nil {
		return ErrClosed
	}
	l.calls.Add(1)
	return nil
}

// beginFunction counts a function of Do, which holds h, until endFunction. It returns false if the Locker has been closed.
func (l *Locker) beginFunction(h *heldLock) bool {
	h.addFunction(1) // so that Close finds it
	l.mu.Lock()
	closed := l.closing.Err() != nil
	if !closed {
		l.functions++
	}
	l.mu.Unlock()
	if closed {
		h.addFunction(-1)
	}
	return !closed
}

// endFunction releases the lock of a function that has returned. Behind the last function it ends the Locker, if that has been
// closed.
func (l *Locker) endFunction(h *heldLock, release func()) {
	l.mu.Lock()
	awaited := l.own && l.closing.Err() == nil // by Close, which closes the nodes behind it
	if awaited {
		l.functions--
		l.calls.Add(1)
	}
	l.mu.Unlock()
	release()
	h.addFunction(-1)
	if awaited {
		l.calls.Done()
		return
	}
	l.mu.Lock()
	l.functions--
	closed := l.closing.Err() != nil
	last := closed && l.functions == 0
	l.mu.Unlock()
	if closed {
		l.renewals.await(h) // nobody else waits for one that is under way
	}
	if last {
		l.calls.Wait()
		l.end()
	}
}

// end ends what the nodes do for the Locker. Nobody waits any more, and no function runs. It may be called again.
func (l *Locker) end() {
	defer l.endOnce.Do(func() { close(l.ended) })
	l.names.close()
	l.unreportNodes()
	if l.own {
		var closing sync.WaitGroup // at the same time, since each may take its timeout
		for _, n := range l.nodes {
			closing.Go(func() { _ = n.Close() }) // always nil
		}
		closing.Wait()
	}
}

// addFunction counts the functions of Do that hold the lock.
func (h *heldLock) addFunction(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.functions += n
}
