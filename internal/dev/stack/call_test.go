package stack_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// slack is what a call may take beyond its bound. Nothing but waiting takes time in a bubble.
const slack = unit

// work makes the calls of one goroutine.
func (c *client) work(number int, steps []step) {
	for i, s := range steps {
		pass(s.pause)
		c.run.note("%v: worker %d: step %d: %v", c, number, i, s.kind)
		c.run.count(s.kind.String())
		c.call(s)
	}
}

// call makes the call of a step. How it ends is checked there.
func (c *client) call(s step) {
	name := fmt.Sprintf("name-%d", s.which%c.run.plan.names)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch s.kind {
	case tryLockCancelled, tryLockClose, extendCancelled:
		defer time.AfterFunc(s.limit, cancel).Stop()
	case lockCancelled:
		s.limit = 0
	}
	switch s.kind {
	case tryLock, tryLockCancelled:
		_, _ = c.tryLock(ctx, name, s)
	case tryLockClose:
		_, _ = c.tryLock(ctx, name, s)
		c.closeAll()
	case lock, lockCancelled:
		_, _ = c.lock(name, s)
	case extend, extendCancelled:
		c.withHeld(s, func(h *held) { c.extend(ctx, h, s) })
	case unlock:
		c.withHeld(s, c.giveBack)
	case unlockTwice:
		c.withHeld(s, func(h *held) { both(func() { c.giveBack(h) }, func() { c.giveBack(h) }) })
	case extendUnlock:
		c.withHeld(s, func(h *held) { both(func() { c.extend(ctx, h, s) }, func() { c.giveBack(h) }) })
	case detach:
		c.withHeld(s, func(h *held) { c.detach(h, s) })
	case do:
		c.do(name, s)
	case tryLockAll, lockAll:
		c.acquireAll(ctx, s)
	case closeLocker:
		c.closeLocker()
	case closeNode:
		i := s.which % len(c.nodes)
		c.untidy[i].Store(true)
		c.closeNode(i)
	case closeClient:
		c.closeAll()
	}
}

func both(one, other func()) {
	var group sync.WaitGroup
	group.Go(one)
	group.Go(other)
	group.Wait()
}

// withHeld calls use with one of the client's locks, held or over, the youngest first.
func (c *client) withHeld(s step, use func(*held)) {
	c.mu.Lock()
	n := len(c.held)
	if n == 0 {
		c.mu.Unlock()
		return
	}
	h := c.held[n-1-s.which%min(n, 1+s.which%3)]
	c.mu.Unlock()
	use(h)
}

// first returns for how much longer than usual what begins at an instant may wait: for the first attempt to connect to each node.
func (c *client) first(begin time.Time) time.Duration {
	for i := range c.dialled {
		if at := c.dialled[i].Load(); at == 0 || !begin.After(time.Unix(0, at).Add(c.plan.dial)) {
			return c.plan.dial
		}
	}
	return 0
}

// bounded makes a call and checks that it keeps its bound.
func (c *client) bounded(what string, bound time.Duration, call func() error) error {
	what = fmt.Sprintf("%v: %s", c, what)
	c.run.pending.Store(&what, nil)
	begin := time.Now()
	bound += c.first(begin)
	err := call()
	took := time.Since(begin)
	c.run.pending.Delete(&what)
	c.run.note("%s took %v: %.60q", what, took, fmt.Sprint(err))
	if took > bound+slack {
		c.run.violate("%s took %v, at most %v are promised", what, took, bound)
	}
	c.run.checkAllHeld()
	return err
}

func (c *client) tryLock(ctx context.Context, name string, s step) (*held, error) {
	return c.acquire(ctx, "TryLock", name, s, c.plan.timeout, c.locker.TryLock, redlock.ErrTaken, redlock.ErrNoQuorum)
}

func (c *client) lock(name string, s step) (*held, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	// closed nodes, or no Redis before a majority has answered
	return c.acquire(ctx, "Lock", name, s, s.limit, c.locker.Lock, nodeerr.ErrClosed, nodeerr.ErrProtocol)
}

// most is how many have a slot of a name at a time.
const most = 2

// options are those of a call of the step.
func (s step) options() []redlock.LockOption {
	opts := []redlock.LockOption{redlock.TTL(s.ttl)}
	switch s.of {
	case redlock.KindShared:
		opts = append(opts, redlock.Shared())
	case redlock.KindSlot:
		opts = append(opts, redlock.Slots(most))
	}
	return opts
}

type taking func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)

// acquire takes a lock. While its context is not over, nor the Locker closed, it may fail with the errors in may.
func (c *client) acquire(ctx context.Context, what, name string, s step, bound time.Duration, call taking, may ...error) (*held, error) {
	var won *redlock.Lock
	late, begin := c.closed.Load(), time.Now()
	err := c.bounded(fmt.Sprint(what, " ", name, " ", s.of), bound, func() (err error) {
		won, err = call(ctx, name, s.options()...)
		return err
	})
	c.checkAcquire(ctx, what, name, err, late)
	if err == nil {
		return c.take(won, name, begin, s), nil
	}
	if ctx.Err() == nil && !c.closing.Load() && !isOneOf(err, may...) {
		c.run.violate("%v: %s returned %v, with its context not over", c, what, err)
	}
	return nil, err
}

// acquireAll takes the locks of several names: some of the plan, and one of two others.
func (c *client) acquireAll(ctx context.Context, s step) {
	names := []string{fmt.Sprintf("other-%d", s.which/2%2), fmt.Sprintf("name-%d", s.which%c.run.plan.names)}
	if s.which%3 == 0 && c.run.plan.names > 1 {
		names = append(names, fmt.Sprintf("name-%d", (s.which+1)%c.run.plan.names))
	}
	what, call, bound := "TryLockAll", c.locker.TryLockAll, 12*c.plan.timeout // it may go on in order
	may := []error{redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrNotHeld}
	if s.kind == lockAll {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.limit)
		defer cancel()
		what, call, bound, may = "LockAll", c.locker.LockAll, s.limit, []error{nodeerr.ErrClosed, nodeerr.ErrProtocol}
	}
	var locks *redlock.Locks
	late, begin := c.closed.Load(), time.Now()
	err := c.bounded(fmt.Sprint(what, " ", names), bound, func() (err error) {
		locks, err = call(ctx, names, redlock.TTL(s.ttl))
		return err
	})
	refusal := (*redlock.QuorumError)(nil)
	if errors.As(err, &refusal) {
		for _, name := range append(refusal.Names, refusal.Name) {
			if !slices.Contains(names, name) {
				c.run.violate("%v: %s of %v is about %s: %v", c, what, names, name, err)
			}
		}
		c.checkAcquire(ctx, what, refusal.Name, err, late)
	} else {
		c.checkAcquire(ctx, what, "", err, late)
	}
	switch {
	case err == nil:
		c.run.count("won together")
		for _, name := range names {
			c.take(locks.Get(name), name, begin, step{ttl: s.ttl * 4 / 5, watch: s.watch})
		}
	case ctx.Err() == nil && !c.closing.Load() && !isOneOf(err, may...):
		c.run.violate("%v: %s returned %v, with its context not over", c, what, err)
	}
}

// extend asks for a TTL that no other extension of this client asks for.
func (c *client) extend(ctx context.Context, h *held, s step) {
	h.extends.Add(1)
	ttl := s.ttl + time.Duration(c.extends.Add(1))*unit
	late, begin, before := c.closed.Load(), time.Now(), h.deadline()
	// One extension of a lock waits for the other, and for a renewal.
	err := c.bounded("Extend "+h.token, c.plan.timeout*time.Duration(len(c.plan.workers)+1), func() error { return h.lock.Extend(ctx, ttl) })
	h.checkExtend(ctx, err, late, before, begin.Add(ttl-drift(ttl)))
}

func (c *client) unlock(h *held) error {
	h.unlocks.Add(1)
	wasHeld, deadline := h.lock.Err() == nil, h.deadline()
	err := c.bounded("Unlock "+h.token, c.plan.timeout, func() error { return h.lock.Unlock(context.Background()) })
	h.checkUnlock(err, wasHeld, time.Now().Before(deadline))
	return err
}

func (c *client) giveBack(h *held) { _ = c.unlock(h) }

// detach leaves a lock to another client, which unlocks it after a while.
func (c *client) detach(h *held, s step) {
	h.unlocks.Add(1)
	var token string
	// It waits for the extensions of others.
	err := c.bounded("Detach "+h.token, c.plan.timeout*time.Duration(len(c.plan.workers)+1), func() error {
		detached, err := h.lock.Detach(context.Background())
		token = string(detached)
		return err
	})
	if err != nil {
		if h.lock.Err() == nil || !isOneOf(err, redlock.ErrReleased, redlock.ErrExpired, redlock.ErrGone) {
			c.run.violate("%v: Detach of %s: %v", c, h.token, err)
		}
		return
	}
	if token != h.token || h.valid() {
		c.run.violate("%v: Detach of %s returned %s: %v", c, h.token, token, h.lock.Err())
	}
	c.run.count("detached")
	c.run.left.Store(token, nil)
	other := c.run.clients[(c.number+1)%len(c.run.clients)]
	begin, late := time.Now(), other.closed.Load()
	var same *redlock.Lock
	err = other.bounded("Attach "+token, 2*other.plan.timeout, func() (err error) { // of a share nodes are asked once more
		same, err = other.locker.Attach(context.Background(), h.name, redlock.Token(token))
		return err
	})
	if err != nil {
		if !late && !isOneOf(err, redlock.ErrNotHeld, redlock.ErrNoQuorum, redlock.ErrClosed) {
			c.run.violate("%v: Attach of %s: %v", other, token, err)
		}
		return
	}
	c.run.count("attached")
	taken := other.take(same, h.name, begin, step{})
	taken.extends.Add(1) // perhaps, before it was left
	pass(s.limit)
	other.giveBack(taken)
}

// do runs a function under a lock.
func (c *client) do(name string, s step) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*s.limit+unit)
	defer cancel()
	c.mu.Lock()
	c.doing++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.doing--
		c.done.Broadcast()
	}()
	late, ran, begin := c.closed.Load(), false, time.Now()
	var h *held
	err := c.locker.Do(ctx, name, func(ctx context.Context, lock *redlock.Lock) error {
		c.runs.Add(1)
		ran = true
		h = c.take(lock, name, begin, step{ttl: s.ttl, watch: true})
		h.extends.Add(1) // it is renewed
		c.run.renewed.Store(h.token, true)
		select {
		case <-ctx.Done():
			pass(s.limit / 2) // it takes a while to notice
		case <-time.After(s.limit):
		}
		h.checkHeld("held by a function")
		h.unlocks.Add(1) // by Do
		closed := c.closed.Load()
		pass(1) // its end is in a goroutine of its own
		if closed && ctx.Err() == nil {
			c.run.violate("%v: the context of a function goes on after Close", c)
		}
		return nil
	}, s.options()...)
	c.run.note("%v: Do %s %s: %.60q", c, name, s.of, fmt.Sprint(err))
	switch {
	case !ran:
		c.checkAcquire(ctx, "Do", name, err, late)
	case h.valid():
		c.run.violate("%v: %s is held after Do: %v", c, h.token, err)
	case err == nil:
		c.run.count("done")
	case c.run.plan.calm() && c.healthy():
		c.run.violate("%v: Do returned %v, with nothing in its way", c, err)
	case !isOneOf(err, redlock.ErrNotHeld, redlock.ErrGone, redlock.ErrExpired, redlock.ErrNoQuorum):
		c.run.violate("%v: Do returned %v", c, err)
	case errors.Is(err, redlock.ErrNoQuorum) && !isOneOf(err, nodeerr.ErrClosed, nodeerr.ErrProtocol) && !errors.As(err, new(*nodeerr.ServerError)):
		c.run.violate("%v: Do returned %v, though its nodes are open and nothing was refused", c, err)
	}
}

// closeLocker closes the Locker. Calls under way return at once, and Close with them.
func (c *client) closeLocker() {
	c.closing.Store(true)
	if err := c.bounded("Locker.Close", 0, c.locker.Close); err != nil {
		c.run.violate("%v: Locker.Close returned %v", c, err)
	}
	c.closed.Store(true)
}

// closeNode closes a node. What it leaves open goes on for ever.
func (c *client) closeNode(i int) {
	if err := c.bounded(fmt.Sprintf("Node.Close %d", i), c.plan.timeout, c.nodes[i].Close); err != nil {
		c.run.violate("%v: Close of node %d returned %v", c, i, err)
	}
	ended := time.Now()
	c.ended[i].Store(&ended)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns[i] {
		if open := !conn.closed.Load(); open && !c.plan.wrapped {
			c.run.violate("%s is open after the Close of its node", conn.name)
		} else if open && conn.isRead() {
			c.run.violate("%s is read after the Close of its node", conn.name)
		}
	}
}

// closeAll closes the Locker, and the nodes when no function of Do runs any more.
func (c *client) closeAll() {
	c.closeLocker()
	c.mu.Lock()
	for c.doing > 0 {
		c.done.Wait()
	}
	c.mu.Unlock()
	var group sync.WaitGroup
	for i := range c.nodes {
		group.Go(func() { c.closeNode(i) })
	}
	group.Wait()
}

// end closes everything.
func (c *client) end() {
	c.closeAll()
	for i, p := range c.pools {
		if err := p.Close(); err != nil {
			c.run.violate("%v: closing pool %d: %v", c, i, err)
		}
	}
}
