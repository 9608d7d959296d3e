package node_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// tally counts replies; it is a Receiver for any number of commands.
type tally struct {
	answers         [8]atomic.Int64 // by Answer
	all             atomic.Int64
	suspended, busy atomic.Int64
}

func (c *tally) Reply(_ wire.Tag, reply wire.Reply) {
	c.all.Add(1)
	c.answers[reply.Answer].Add(1)
	if errors.Is(reply.Err, nodeerr.ErrSuspended) {
		c.suspended.Add(1)
	}
	if errors.Is(reply.Err, nodeerr.ErrOverloaded) {
		c.busy.Add(1)
	}
}

// What is under way on a frozen node is bounded, and so are the goroutines.
func TestPipeline_BoundsWhatIsUnderWayOnAFrozenNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frozen := make(chan struct{})
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "SET" {
				<-frozen
			}
			return likeRedis(c, args)
		})
		n := f.open(t, withMaxOverdue(time.Hour))
		requireYes(t, n, newExtend("key", "token", ttl))
		synctest.Wait()
		goroutines := runtime.NumGoroutine()

		const asked = 10_000
		var count tally
		for range asked {
			sendTo(n, newAcquire("key", "token", ttl), &count, 0)
		}
		synctest.Wait()
		require.EqualValues(t, asked-4096, count.busy.Load(), "refused at once")
		require.EqualValues(t, asked-4096, count.all.Load())
		pass(n.Config().Timeout)
		synctest.Wait()
		require.EqualValues(t, asked, count.all.Load(), "ended with their timeout")
		for range asked {
			sendTo(n, newAcquire("key", "token", ttl), &count, 0)
		}
		require.EqualValues(t, asked, count.suspended.Load(), "refused at once: the node is not asked again")
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+1)

		close(frozen)
		synctest.Wait()
		requireYes(t, n, newAcquire("key", "token", ttl))
		require.EqualValues(t, 2*asked, count.all.Load(), "late answers are nobody's")
		require.Zero(t, count.answers[quorum.Yes].Load())
		require.Equal(t, 1, f.connections())
	})
}

func TestPipeline_BoundsWhatIsSentToAFrozenNodeAllTheSame(t *testing.T) {
	observe := form.Exclusive{}.Observe("key")
	observe.WantsLate = true
	for name, cmd := range map[string]*wire.Command{"clean-up": newRelease("key", "token", ttl), "looks at keys that may be gone": observe} {
		for _, overdue := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, overdue: %t", name, overdue), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newFake(t, answering("EVAL", "")).open(t, withMaxOverdue(time.Hour))
					const asked = 20_000
					var count tally
					refused := &count.busy
					sendTo(n, cmd, &count, 0)
					if overdue {
						pass(n.Config().Timeout)
						synctest.Wait()
						requireReply(t, quorum.Unsent, nodeerr.ErrSuspended, ask(t, n, newAcquire("key", "token", ttl)))
						refused = &count.suspended
					}
					for range asked - 1 {
						sendTo(n, cmd, &count, 0)
					}
					synctest.Wait()
					require.EqualValues(t, asked-4*4096, refused.Load())
					pass(n.Config().Timeout)
					synctest.Wait()
					require.EqualValues(t, asked, count.all.Load())
					require.EqualValues(t, 4*4096, count.answers[quorum.Unknown].Load())
				})
			})
		}
	}
}

func TestPipeline_OneLateAnswerMakesANodeGoodAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := silentOn(t, "SET")
		n := f.open(t, withMaxOverdue(time.Hour))
		lost := []inbox{send(n, newAcquire("a", "token", ttl)), send(n, newAcquire("b", "token", ttl))}
		for _, reply := range lost {
			requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, reply.next(t))
		}
		requireReply(t, quorum.Unsent, nodeerr.ErrSuspended, ask(t, n, newExtend("key", "token", ttl)))
		_, err := io.WriteString(f.peer(1), "$-1\r\n")
		require.NoError(t, err)
		synctest.Wait()

		// The answer to b is still missing: what comes next is not the answer to this one.
		next := send(n, newAcquire("c", "token", ttl))
		_, err = io.WriteString(f.peer(1), "+OK\r\n")
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, next)
		_, err = io.WriteString(f.peer(1), "$-1\r\n")
		require.NoError(t, err)
		requireReply(t, quorum.No, nodeerr.ErrHeld, next.next(t))
		require.Empty(t, lost[0], "answered twice")
		require.Empty(t, lost[1], "answered twice")
		require.Equal(t, 1, f.connections())
	})
}

func TestPipeline_ACommandThatTimesOutCostsOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "SET" && args[1] == "slow" {
				pass(60 * time.Millisecond)
			}
			return likeRedis(c, args)
		})
		n := f.open(t)
		slow := send(n, newAcquire("slow", "token", ttl))
		synctest.Wait()
		pass(20 * time.Millisecond)
		quick := send(n, newAcquire("quick", "token", ttl))
		requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, slow.next(t))
		require.Equal(t, quorum.Yes, quick.next(t).Answer)
		require.Empty(t, slow)
		requireYes(t, n, newAcquire("next", "token", ttl))
		require.Equal(t, 1, f.connections())
	})
}

func TestPipeline_AReleaseFollowsItsAcquireToAFrozenServer(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	n := open(t, server.Addr(), withTimeout(500*time.Millisecond), withMaxOverdue(time.Hour))
	requireBack(t, n)
	client := clients(t, server)
	server.Freeze()
	requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, ask(t, n, newAcquire("key", "token", ttl)))
	requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, ask(t, n, newRelease("key", "token", ttl)))
	server.Thaw()
	requireCalls(t, server, "eval", 1)
	require.Empty(t, holds(t, server, "key"))
	require.Equal(t, client, clients(t, server), "on the same connection")
}

func TestPipeline_AReleaseIsSentUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var releases atomic.Int32
		f := newFake(t, func(c *peer, args []string) string {
			if isScript(args) && releases.Add(1) < 5 {
				_ = c.Close() // before the answer
				return ""
			}
			return likeRedis(c, args)
		})
		n := f.open(t)
		requireYes(t, n, newAcquire("key", "token", ttl))
		requireReply(t, quorum.Unknown, nodeerr.ErrBroken, ask(t, n, newRelease("key", "token", ttl)))
		pass(ttl / 2)
		require.EqualValues(t, 5, releases.Load())
		pass(2 * ttl)
		require.EqualValues(t, 5, releases.Load(), "it was sent after its answer")
	})
}

func TestPipeline_PendingReleasesGoFirstAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		var f *fake
		f = newFake(t, func(c *peer, args []string) string {
			switch {
			case c.number == 1 && args[0] == "SET":
				<-f.end // and reads no more: what is written next hangs, and the rest is queued
			case args[0] == "SET":
				got = append(got, "acquire "+args[1])
			case isScript(args):
				got = append(got, "release "+args[3])
			}
			return likeRedis(c, args)
		})
		n := f.open(t)
		lost := []inbox{send(n, newAcquire("key", "token", ttl))}
		synctest.Wait()
		for i := range 4 {
			lost = append(lost, send(n, newRelease(fmt.Sprint(i), "token", ttl)))
			synctest.Wait()
		}
		require.NoError(t, f.peer(1).Close())
		for i, reply := range lost {
			if i < 2 {
				requireReply(t, quorum.Unknown, nodeerr.ErrBroken, reply.next(t))
			} else {
				require.Equal(t, quorum.Yes, reply.next(t).Answer)
			}
		}
		requireYes(t, n, newAcquire("next", "token", ttl))
		require.Equal(t, []string{"release 0", "release 1", "release 2", "release 3", "acquire next"}, got)
		for _, reply := range lost {
			require.Empty(t, reply, "answered twice")
		}
	})
}

func TestPipeline_AReleaseIsDroppedWhenItIsPointless(t *testing.T) {
	const redeliver = ttl
	for name, test := range map[string]struct {
		down time.Duration // for how long after the release
		want int32
	}{
		"the network is back before":     {redeliver - 2*time.Second, 1},
		"the network is back afterwards": {redeliver + time.Second, 0},
	} {
		for _, sent := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, written before: %v", name, sent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var releases atomic.Int32
					b := newFake(t, func(c *peer, args []string) string {
						if isScript(args) {
							if c.number == 1 {
								return ""
							}
							releases.Add(1)
						}
						return likeRedis(c, args)
					})
					n := b.open(t)
					requireYes(t, n, newAcquire("key", "token", ttl))
					if !sent {
						b.breakNetwork()
						synctest.Wait()
					}
					reply := send(n, newRelease("key", "token", redeliver))
					synctest.Wait()
					if sent {
						b.breakNetwork()
					}
					require.Equal(t, quorum.Unknown, reply.next(t).Answer)
					pass(test.down)
					b.down.Store(false)
					pass(1500 * time.Millisecond) // the longest pause between two attempts, and some more
					require.Equal(t, test.want, releases.Load())
				})
			})
		}
	}
}

func TestPipeline_AReleaseReportsWhyTheNodeIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFake(t, nil)
		b.down.Store(true)
		n := b.open(t)
		for range 10 {
			start := time.Now()
			reply := ask(t, n, newRelease("key", "token", ttl))
			requireReply(t, quorum.Unknown, errDown, reply)
			require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
			require.LessOrEqual(t, time.Since(start), n.Config().Timeout)
		}
	})
}
