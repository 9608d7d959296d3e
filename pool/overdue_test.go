package pool_test

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
)

// tally counts replies; it is a Receiver for any number of commands.
type tally struct {
	answers         [6]atomic.Int64 // by Answer
	all             atomic.Int64
	suspended, busy atomic.Int64
}

func (c *tally) Reply(_ int, _ *pool.Command, reply pool.Reply) {
	c.all.Add(1)
	c.answers[reply.Answer].Add(1)
	if errors.Is(reply.Err, pool.ErrSuspended) {
		c.suspended.Add(1)
	}
	if errors.Is(reply.Err, pool.ErrBusy) {
		c.busy.Add(1)
	}
}

// Trap 27: what is under way on a frozen node is bounded, and so are the goroutines.
func TestAFrozenNodeDoesNotPileUpWhatBusyCallersAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frozen := make(chan struct{})
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "SET" {
				<-frozen
			}
			return likeRedis(c, args)
		})
		node := f.open(t, pool.WithMaxOverdue(time.Hour))
		requireYes(t, node, pool.Extend("key", "token", ttl))
		synctest.Wait()
		goroutines := runtime.NumGoroutine()

		const asked = 10_000
		var count tally
		for range asked {
			node.Send(time.Now(), pool.Acquire("key", "token", ttl), &count, 0)
		}
		synctest.Wait()
		require.EqualValues(t, asked-4096, count.busy.Load(), "refused at once")
		require.EqualValues(t, asked-4096, count.all.Load())
		pass(node.Timeout())
		synctest.Wait()
		require.EqualValues(t, asked, count.all.Load(), "ended with their timeout")
		for range asked {
			node.Send(time.Now(), pool.Acquire("key", "token", ttl), &count, 0)
		}
		require.EqualValues(t, asked, count.suspended.Load(), "refused at once: the node is not asked again")
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+1)

		close(frozen)
		synctest.Wait()
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		require.EqualValues(t, 2*asked, count.all.Load(), "late answers are nobody's")
		require.Zero(t, count.answers[pool.Yes].Load())
		require.Equal(t, 1, f.connections())
	})
}

func TestCleanUpOnAFrozenNodeIsBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t, answering("EVAL", "")).open(t, pool.WithMaxOverdue(time.Hour))
		const asked = 40_000
		var count tally
		for range asked {
			node.Send(time.Now(), pool.Release("key", "token", ttl), &count, 0)
		}
		synctest.Wait()
		busy := count.busy.Load()
		require.EqualValues(t, asked-4*4096, busy)
		pass(node.Timeout())
		synctest.Wait()
		require.EqualValues(t, asked, count.all.Load())
		require.EqualValues(t, asked-busy, count.answers[pool.Maybe].Load())
	})
}

func TestOneLateAnswerMakesANodeGoodAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := silentOn(t, "SET")
		node := f.open(t, pool.WithMaxOverdue(time.Hour))
		lost := []inbox{send(node, pool.Acquire("a", "token", ttl)), send(node, pool.Acquire("b", "token", ttl))}
		for _, reply := range lost {
			requireReply(t, pool.Maybe, pool.ErrTimeout, reply.next(t))
		}
		requireReply(t, pool.Unsent, pool.ErrSuspended, ask(t, node, pool.Extend("key", "token", ttl)))
		_, err := io.WriteString(f.peer(1), "$-1\r\n")
		require.NoError(t, err)
		synctest.Wait()

		// The answer to b is still missing: what comes next is not the answer to this one.
		next := send(node, pool.Acquire("c", "token", ttl))
		_, err = io.WriteString(f.peer(1), "+OK\r\n")
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, next)
		_, err = io.WriteString(f.peer(1), "$-1\r\n")
		require.NoError(t, err)
		requireReply(t, pool.No, pool.ErrHeld, next.next(t))
		require.Empty(t, lost[0], "told twice")
		require.Empty(t, lost[1], "told twice")
		require.Equal(t, 1, f.connections())
	})
}

func TestACommandThatTimesOutCostsOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "SET" && args[1] == "slow" {
				pass(60 * time.Millisecond)
			}
			return likeRedis(c, args)
		})
		node := f.open(t)
		slow := send(node, pool.Acquire("slow", "token", ttl))
		synctest.Wait()
		pass(20 * time.Millisecond)
		quick := send(node, pool.Acquire("quick", "token", ttl))
		requireReply(t, pool.Maybe, pool.ErrTimeout, slow.next(t))
		require.Equal(t, pool.Yes, quick.next(t).Answer)
		require.Empty(t, slow)
		requireYes(t, node, pool.Acquire("next", "token", ttl))
		require.Equal(t, 1, f.connections())
	})
}

// Trap 30: a dead connection is not kept until the operating system gives it up.
func TestAConnectionWhoseAnswersStayOutIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const overdue = 3 * time.Second
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "SET" && c.number == 1 {
				return ""
			}
			return likeRedis(c, args)
		})
		node := f.open(t, pool.WithMaxOverdue(overdue))
		requireReply(t, pool.Maybe, pool.ErrTimeout, ask(t, node, pool.Acquire("key", "token", ttl)))
		pass(overdue - 1)
		require.Equal(t, 1, f.connections())
		requireReply(t, pool.Unsent, pool.ErrSuspended, ask(t, node, pool.Acquire("key", "token", ttl)))
		pass(1)
		synctest.Wait()
		require.Equal(t, 2, f.connections())
		requireYes(t, node, pool.Acquire("key", "token", ttl))
	})
}

func TestAConnectionThatDiesWhileIdleIsReplacedBeforeItIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "PING" && c.number == 1 {
				return ""
			}
			return likeRedis(c, args)
		})
		node := f.open(t)
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		pass(12 * time.Second) // the pause between two pings, and what an answer may take
		require.Equal(t, 2, f.connections())
		start := time.Now()
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		require.Zero(t, time.Since(start))
		pass(time.Minute)
		require.Equal(t, 2, f.connections(), "a connection that lives is kept")
	})
}

func TestPingsAreSentOnlyWhereNothingElseIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pings atomic.Int32
		f := newFake(t, func(c *peer, args []string) string {
			if strings.HasPrefix(args[0], "PING") {
				pings.Add(1)
			}
			if args[0] == "SET" {
				return ""
			}
			return likeRedis(c, args)
		})
		node := f.open(t, pool.WithMaxOverdue(time.Hour))
		requireYes(t, node, pool.Extend("key", "token", ttl))
		pass(35 * time.Second)
		require.EqualValues(t, 3, pings.Load())
		requireReply(t, pool.Maybe, pool.ErrTimeout, ask(t, node, pool.Acquire("key", "token", ttl)))
		pass(time.Minute)
		require.EqualValues(t, 3, pings.Load())
	})
}
