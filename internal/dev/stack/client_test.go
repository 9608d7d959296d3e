package stack_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// client is a program: nodes, a Locker and goroutines that use them.
type client struct {
	run     *run
	number  int
	plan    clientPlan
	nodes   []*pool.Node
	pools   []*redis.Pool // that a client wraps, if it does
	locker  *redlock.Locker
	closing atomic.Bool                 // Locker.Close was called
	closed  atomic.Bool                 // and has returned
	ended   []atomic.Pointer[time.Time] // ended[i]: when Close of node i has returned
	untidy  []atomic.Bool               // untidy[i]: node i was closed before the Locker
	rounds  atomic.Int64                // of its acquires
	extends atomic.Int64                // extensions asked for
	votes   []atomic.Int64              // votes[i] of node i on acquires
	runs    atomic.Int64                // functions of Do
	dialled []atomic.Int64              // dialled[i]: when node i dialled first, in nanoseconds since 1970; 0: it did not
	doing   int                         // calls of Do under way
	done    *sync.Cond                  // one of them has ended

	mu    sync.Mutex
	conns [][]*conn // conns[i] to server i
	held  []*held
	won   map[string]bool // tokens of the locks that were won
}

func newClient(r *run, number int) *client {
	n := len(r.servers)
	c := &client{
		run: r, number: number, plan: r.plan.clients[number],
		ended: make([]atomic.Pointer[time.Time], n), untidy: make([]atomic.Bool, n), votes: make([]atomic.Int64, n), dialled: make([]atomic.Int64, n),
		conns: make([][]*conn, n), won: map[string]bool{},
	}
	c.done = sync.NewCond(&c.mu)
	opts := []pool.Option{
		pool.WithTimeout(c.plan.timeout), pool.WithDialTimeout(c.plan.dial), pool.WithMaxOverdue(c.plan.maxOverdue),
		pool.WithName(func(i int) string { return fmt.Sprintf("server-%d", i) }),
	}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		var port int
		if _, err := fmt.Sscanf(address, "server:%d", &port); err != nil {
			return nil, err
		}
		return c.dial(ctx, port-1)
	}
	var urls []string
	for i := range r.servers {
		address := fmt.Sprintf("server:%d", 1+i)
		urls = append(urls, "redis://"+address)
		c.pools = append(c.pools, &redis.Pool{MaxIdle: 2, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "memory", address, redis.DialContextFunc(dial))
		}})
	}
	var err error
	if c.plan.wrapped {
		c.nodes, err = pool.Wrap(c.pools, opts...)
	} else {
		c.nodes, err = pool.Open(urls, append(opts, pool.WithDialer(dial))...)
	}
	if err == nil {
		c.locker, err = redlock.New(c.nodes, redlock.WithClock(bubbleClock{r}), redlock.WithObserver(c, event.Calls, protocol.Rounds, protocol.Votes), redlock.WithLocalHandoff(c.plan.handoff))
	}
	if err != nil {
		panic(err)
	}
	return c
}

func (c *client) String() string { return fmt.Sprintf("c%d", c.number) }

func (c *client) dial(ctx context.Context, i int) (net.Conn, error) {
	c.dialled[i].CompareAndSwap(0, time.Now().UnixNano())
	end, err := c.run.servers[i].dial(ctx, c)
	if err != nil {
		c.run.note("%v: dialing server %d: %v", c, i, err)
		return nil, err
	}
	c.run.note("%v", end.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[i] = append(c.conns[i], end)
	return end, nil
}

// owner returns the owner part of the Locker's tokens, to which other clients address their messages.
func (c *client) owner() string {
	return reflect.ValueOf(c.locker).Elem().FieldByName("engine").Elem().FieldByName("Self").String()
}

// drew reports whether a token is one of the client's.
func (c *client) drew(token string) bool { return strings.HasPrefix(token, c.owner()+".") }

// Observe implements event.Observer.
func (c *client) Observe(e event.Event) {
	switch v := e.(type) {
	case protocol.Vote:
		c.vote(v)
	case protocol.Round:
		c.verdict(v)
	case event.Acquire:
		c.rounds.Add(int64(v.Rounds))
	}
}

func (c *client) vote(v protocol.Vote) {
	c.run.yield()
	if v.Op == "acquire" {
		c.votes[v.Node].Add(1)
	}
	if v.Took > c.plan.timeout+slack+c.first(time.Now().Add(-v.Took)) {
		c.run.violate("%v: node %d took %v for its answer to %s", c, v.Node, v.Took, v.Op)
	}
	if v.Answer != protocol.AnswerUnsent && c.ended[v.Node].Load() != nil && v.At.After(*c.ended[v.Node].Load()) {
		c.run.violate("%v: node %d answered %v to %s after its Close had returned", c, v.Node, v.Answer, v.Op)
	}
	refusal := (*nodeerr.ServerError)(nil)
	// An extension is not sent behind what ends its lock; nor is a script sent again then, also that of a LockAll.
	overtaken := v.Op == "extend" && isOver(v.Err) || errors.As(v.Err, &refusal) && refusal.Code == "NOSCRIPT"
	if good := v.Answer == protocol.AnswerYes || v.Answer == protocol.AnswerNo || v.Answer == protocol.AnswerRecreated || overtaken; !good && c.run.plan.calm() && !isOneOf(v.Err, nodeerr.ErrClosed) {
		c.run.violate("%v: node %d answered %v to %s, with nothing in its way: %v", c, v.Node, v.Answer, v.Op, v.Err)
	}
	if v.Err != nil && !known(v.Err) {
		c.run.violate("%v: node %d gave an unknown reason: %v", c, v.Node, v.Err)
	}
	if isOneOf(v.Err, context.Canceled, context.DeadlineExceeded) {
		c.run.violate("%v: node %d gave a reason that looks like the end of the caller's context: %v", c, v.Node, v.Err)
	}
	c.run.count("vote " + v.Answer.String())
}

func (c *client) verdict(v protocol.Round) {
	c.run.yield()
	if renews := v.Op == "extend" && c.runs.Load() > 0; v.Op != "unlock" && !renews && c.closed.Load() {
		c.run.violate("%v: %s of %s was under way when Locker.Close had returned", c, v.Op, v.Name)
	}
}

// known reports whether an error is one of those that a node gives as its reason.
func known(err error) bool {
	return isOneOf(err,
		nodeerr.ErrHeld, nodeerr.ErrAbsent, nodeerr.ErrRecreated, nodeerr.ErrTimeout, nodeerr.ErrSuspended, nodeerr.ErrOverloaded, nodeerr.ErrBroken, nodeerr.ErrClosed, nodeerr.ErrProtocol,
		nodeerr.ErrUnneeded, nodeerr.ErrUnanswered, nodeerr.ErrQueued,
	) || isOver(err) || errors.As(err, new(*nodeerr.ConnectError)) || errors.As(err, new(*nodeerr.ServerError))
}

func isOneOf(err error, these ...error) bool {
	return slices.ContainsFunc(these, func(one error) bool { return errors.Is(err, one) })
}

// bubbleClock is the time of the bubble. Reading it lets others go first now and then.
type bubbleClock struct{ run *run }

func (b bubbleClock) Now() time.Time {
	b.run.yield()
	return time.Now().Round(0)
}

func (b bubbleClock) AfterFunc(d time.Duration, f func()) clock.Timer { return time.AfterFunc(d, f) }

// isOver reports whether a node was not asked because the lock had ended meanwhile.
func isOver(err error) bool {
	return err != nil && err.Error() == "not asked: the lock is over"
}
