package pool_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// hammer lets many callers take and release a few keys at once, until it is told to settle.
type hammer struct {
	node    *pool.Node
	forgets bool // the server loses keys meanwhile: a key may be taken twice
	stop    chan struct{}
	callers sync.WaitGroup
	tokens  atomic.Int64
	holders [8]atomic.Int32 // by key
	answers [6]atomic.Int64 // by Answer
}

func startHammer(t testing.TB, node *pool.Node, forgets bool) *hammer {
	h := &hammer{node: node, forgets: forgets, stop: make(chan struct{})}
	for range 64 {
		h.callers.Go(func() {
			for {
				select {
				case <-h.stop:
					return
				default:
					h.cycle(t)
				}
			}
		})
	}
	return h
}

// cycle takes a key and releases it, unless the acquire had no effect.
func (h *hammer) cycle(t testing.TB) {
	key := rand.IntN(len(h.holders))
	name, token := strconv.Itoa(key), strconv.FormatInt(h.tokens.Add(1), 10)
	acquired := send(h.node, pool.Acquire(name, token, ttl))
	answer := (<-acquired).Answer
	h.answers[answer].Add(1)
	switch answer {
	case pool.Yes:
		if h.holders[key].Add(1) > 1 && !h.forgets {
			t.Error("a key was taken that was held")
		}
		h.holders[key].Add(-1)
	case pool.Maybe:
	case pool.Unsent:
		<-time.After(tick) // who is refused at once does not ask again at once
		return
	default:
		return
	}
	extended := send(h.node, pool.Extend(name, token, 2*ttl))
	restored := send(h.node, pool.Restore(name, token, ttl))
	released := send(h.node, pool.Release(name, token, ttl))
	check := func(replies inbox) {
		reply := <-replies
		if answer == pool.Yes && reply.Answer == pool.No && !errors.Is(reply.Err, pool.ErrBroken) && !h.forgets {
			t.Errorf("a key that was held was not there any more: %v", reply.Err)
		}
	}
	check(extended)
	check(released)
	h.callers.Go(func() { // while the server is frozen this one stays out
		check(restored)
		if len(acquired)+len(extended)+len(restored)+len(released) > 0 {
			t.Error("a command was answered twice")
		}
	})
}

// progress waits until the hammer has taken more keys.
func (h *hammer) progress(t testing.TB) {
	t.Helper()
	before := h.answers[pool.Yes].Load()
	require.Eventually(t, func() bool { return h.answers[pool.Yes].Load() > before+200 }, bound, tick)
}

// settle ends the hammer and waits until no key is left.
func (h *hammer) settle(t testing.TB, server redistest.Server) {
	t.Helper()
	close(h.stop)
	h.callers.Wait()
	require.Eventually(t, func() bool {
		return ask(t, h.node, pool.Release("key", "token", ttl)).Answer == pool.No
	}, bound, tick, "the node does not recover")
	require.Eventually(t, func() bool { return fmt.Sprint(do(t, server, "DBSIZE")) == "0" }, bound, tick, "a key was never released")
	for answer := pool.Yes; answer <= pool.Unsent; answer++ {
		t.Log(answer, h.answers[answer].Load())
	}
}

func TestManyCallersOnFewKeysExcludeEachOther(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		h := startHammer(t, open(t, server.URL(), patient()), false)
		for range 5 {
			h.progress(t)
		}
		h.settle(t, server)
		require.Zero(t, h.answers[pool.Maybe].Load()+h.answers[pool.Refused].Load()+h.answers[pool.Unsent].Load())
	})
}

// onBothNodes runs a test on a real server, with a node that Open made and with one that Wrap made: each has code of
// its own for what goes over the connection.
func onBothNodes(t *testing.T, opts []pool.Option, test func(t *testing.T, server *redistest.Process, node *pool.Node)) {
	server := redistest.Real(t, 1)[0]
	t.Run("opened", func(t *testing.T) { test(t, server, open(t, server.URL(), opts...)) })
	t.Run("wrapped", func(t *testing.T) {
		test(t, server, wrap(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, server.URL())
		}}, opts...))
	})
}

func TestManyCallersSurviveAServerThatIsKilledAgainAndAgain(t *testing.T) {
	opts := []pool.Option{pool.WithTimeout(500 * time.Millisecond)}
	onBothNodes(t, opts, func(t *testing.T, server *redistest.Process, node *pool.Node) {
		h := startHammer(t, node, true)
		for range 8 {
			h.progress(t)
			server.Stop()
			server.Start()
		}
		h.progress(t)
		h.settle(t, server)
	})
}

func TestManyCallersSurviveConnectionsThatAreCutAgainAndAgain(t *testing.T) {
	opts := []pool.Option{pool.WithTimeout(500 * time.Millisecond)}
	onBothNodes(t, opts, func(t *testing.T, server *redistest.Process, node *pool.Node) {
		h := startHammer(t, node, false)
		for range 20 {
			h.progress(t)
			do(t, server, "CLIENT", "KILL", "TYPE", "normal")
		}
		h.progress(t)
		h.settle(t, server)
	})
}

// Trap 3 and trap 27 at once: whatever a frozen server has taken in on connections that
// were given up meanwhile, no key is left and none is taken twice.
func TestManyCallersSurviveAServerThatFreezesAgainAndAgain(t *testing.T) {
	opts := []pool.Option{
		pool.WithTimeout(30 * time.Millisecond), pool.WithMaxOverdue(20 * time.Millisecond), pool.WithDialTimeout(100 * time.Millisecond),
	}
	onBothNodes(t, opts, func(t *testing.T, server *redistest.Process, node *pool.Node) {
		h := startHammer(t, node, false)
		for range 8 {
			h.progress(t)
			server.Freeze()
			suspended := h.answers[pool.Unsent].Load()
			require.Eventually(t, func() bool { return h.answers[pool.Unsent].Load() > suspended+500 }, bound, tick)
			server.Thaw()
		}
		h.progress(t)
		h.settle(t, server)
	})
}
