package pictures

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

const (
	lockName = "invoice-4711" // the lock of all pictures
	warmName = "warm-up"      // another one
	warming  = "warm-up of "
)

// nodes are redis-server processes that Lockers take locks on, and the record of what happens.
type nodes struct {
	*record
	servers  []*testredis.Process
	watching sync.WaitGroup
	ends     []func() // in the order of the beginnings
}

// startNodes starts n servers, and the record of what happens to the key of the lock on each.
func startNodes(ctx context.Context, n int) (_ *nodes, err error) {
	c := &nodes{record: newRecord()}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	fault := func(err error) { c.add("nodes", err) }
	if c.servers, err = testredis.Launch(ctx, n, fault, "--notify-keyspace-events", "KEA"); err != nil {
		return nil, err
	}
	c.ends = append(c.ends, func() { _ = testredis.Close(c.servers) })
	for i, s := range c.servers {
		if err = c.watch(i, s.Addr()); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// watch records the changes of the lock's key on a node.
func (c *nodes) watch(i int, addr string) error {
	conn, err := redis.Dial("tcp", addr)
	if err != nil {
		return err
	}
	c.ends = append(c.ends, func() { _ = conn.Close() })
	sub := redis.PubSubConn{Conn: conn}
	if err := sub.Subscribe("__keyspace@0__:" + lockName); err != nil {
		return err
	}
	if err, failed := sub.Receive().(error); failed {
		return err
	}
	c.watching.Go(func() {
		for {
			switch m := sub.Receive().(type) {
			case redis.Message:
				c.add("nodes", keyEvent{time.Now(), i, string(m.Data)})
			case error:
				return
			}
		}
	})
	return nil
}

// close ends everything, the latest first.
func (c *nodes) close() {
	for i := len(c.ends) - 1; i >= 0; i-- {
		c.ends[i]()
	}
	c.watching.Wait()
}

// locker returns a Locker whose commands take oneWay[i] to the i-th node, and their answers the same. Its events are recorded
// as those of who.
func (c *nodes) locker(ctx context.Context, who string, timeout time.Duration, oneWay []time.Duration, opts ...redlock.Option) (*redlock.Locker, error) {
	addrs := make([]string, len(c.servers))
	for i, s := range c.servers {
		addrs[i] = s.Addr()
	}
	opts = append(opts, redlock.WithObserver(c.observer(who)),
		redlock.WithPoolOptions(pool.WithTimeout(timeout), pool.WithDialer(link(addrs, oneWay))))
	l, err := redlock.Open(testredis.URLs(c.servers), opts...)
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, func() { _ = l.Close() })
	return l, c.warm(ctx, who, l)
}

// warm has the nodes of a Locker connect, which they do when they are first asked, and returns when no answer of any is
// missing any more.
func (c *nodes) warm(ctx context.Context, who string, l *redlock.Locker) error {
	n := len(c.servers)
	no := func(v event.Vote) bool { return v.Answer != event.AnswerYes }
	for tries := 1; ; tries++ {
		lock, _ := l.TryLock(ctx, warmName)
		asked, err := await(ctx, c.record, warming+who, n*tries, func(v event.Vote) bool { return v.Op == event.OpAcquire })
		if err != nil {
			return err
		}
		asked = asked[n*(tries-1):]
		if lock == nil {
			continue
		}
		_ = lock.Unlock(ctx)
		if slices.ContainsFunc(asked, no) {
			continue
		}
		released, err := await(ctx, c.record, warming+who, n, func(v event.Vote) bool {
			return v.Op == event.OpUnlock && v.Call > asked[0].Call
		})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(released, no) {
			return nil
		}
	}
}

// remaining returns what is left of the key's TTL and of the clock's second, by the clock of the server.
var remaining = redis.NewScript(1, "return {redis.call('PTTL', KEYS[1]), redis.call('TIME')[1], redis.call('TIME')[2]}")

// expiry returns when the key of the lock expires on a node. The servers have the clock of this machine.
func (c *nodes) expiry(i int) (time.Time, error) {
	conn, err := redis.Dial("tcp", c.servers[i].Addr(), redis.DialReadTimeout(5*time.Second))
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Close()
	got, err := redis.Int64s(remaining.Do(conn, lockName))
	if err != nil {
		return time.Time{}, err
	}
	if got[0] < 0 {
		return time.Time{}, fmt.Errorf("%w: node %d has no key with a TTL", errOtherwise, i+1)
	}
	now := time.Now()
	server := time.Unix(got[1], got[2]*1000)
	return now.Add(server.Sub(now.Round(0)) + time.Duration(got[0])*time.Millisecond), nil
}

// keys returns the changes of one kind on a node.
func (c *nodes) keys(i int, what string) []keyEvent {
	return find(c.record, "nodes", func(e keyEvent) bool { return e.Node == i && e.What == what })
}

// errOtherwise is what a scenario returns if it has not shown what its picture is for: on a busy machine what was to come
// first may come later.
var errOtherwise = errors.New("the picture would not show its point")

// show returns an error unless all of what the picture is for has happened.
func show(what ...claim) error {
	for _, c := range what {
		if !c.holds {
			return fmt.Errorf("%w: %s", errOtherwise, c.text)
		}
	}
	return nil
}

type claim struct {
	holds bool
	text  string
}

// nodeName returns what the pictures call the i-th node.
func nodeName(i int) string { return fmt.Sprintf("node %d", i+1) }

// digits returns the last digits of fencing tokens, as many as tell them apart and keep their order.
func digits(numbers ...uint64) []string {
	texts := make([]string, len(numbers))
	for keep := 3; ; keep++ {
		ordered := true
		for i, n := range numbers {
			full := fmt.Sprint(n)
			texts[i] = full
			if keep < len(full) {
				texts[i] = "…" + full[len(full)-keep:]
			}
			ordered = ordered && (i == 0 || (numbers[i-1] < n) == (strings.Compare(texts[i-1], texts[i]) < 0))
		}
		if ordered || keep > 20 {
			return texts
		}
	}
}
