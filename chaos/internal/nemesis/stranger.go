//go:build linux

package nemesis

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// clear deletes a key if it has the value.
var clear = redis.NewScript(1, `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)

// Stranger takes a lock of the library as programs without it do: by SETNX on each node, without a TTL, and a DEL. Now and then it
// keeps a text of its own under the key of a fence counter. It records what it does and finds.
func (w *World) Stranger(ctx context.Context, dice *rand.Rand, name string, number int) {
	for ctx.Err() == nil {
		nodes := w.nodes()
		if dice.IntN(4) == 0 {
			node := nodes[dice.IntN(len(nodes))]
			w.keep(ctx, dice, number, []int{node}, name, "{"+w.Prefix+name+"}:fence", "hello", false)
		} else {
			w.keep(ctx, dice, number, nodes, name, w.Prefix+name, "1", true)
		}
		if dice.IntN(3) == 0 {
			wait(ctx, time.Duration(dice.Int64N(int64(2*time.Second))))
		}
	}
}

// keep sets a key on some nodes, looks at it for up to 1.8 s, and deletes it.
func (w *World) keep(ctx context.Context, dice *rand.Rand, worker int, nodes []int, name, key, value string, onlyNew bool) {
	var set []int
	for _, node := range nodes {
		op := w.History.Begin(history.Op{Kind: history.Set, Worker: worker, Name: name, Node: node, Key: key, Value: value})
		args := redis.Args{}.Add(key, value)
		if onlyNew {
			args = args.Add("NX")
		}
		reply, err := w.Cluster.Server(node).Do("SET", args...)
		switch {
		case err != nil:
			op.Err = history.Unknown
		case reply == nil:
			op.Err = history.Taken
		}
		if op.Err != history.Taken {
			set = append(set, node)
		}
		w.History.End(op)
	}
	if len(set) == 0 {
		wait(ctx, 20*time.Millisecond)
		return
	}
	until := time.Now().Add(time.Duration(dice.Int64N(int64(1800 * time.Millisecond))))
	for time.Now().Before(until) && ctx.Err() == nil {
		wait(ctx, time.Until(until)/2+time.Millisecond)
		for _, node := range set {
			op := w.History.Begin(history.Op{Kind: history.Check, Worker: worker, Name: name, Node: node, Key: key})
			found, err := redis.String(w.Cluster.Server(node).Do("GET", key))
			op.Value = found
			if err != nil && !errors.Is(err, redis.ErrNil) {
				op.Err = history.Unknown
			}
			w.History.End(op)
		}
	}
	for _, node := range set {
		op := w.History.Begin(history.Op{Kind: history.Clear, Worker: worker, Name: name, Node: node, Key: key})
		if c, err := w.Cluster.Server(node).Conn(); err == nil {
			_, err = clear.Do(c, key, value)
			if err != nil {
				op.Err = history.Unknown
			}
			_ = c.Close()
		} else {
			op.Err = history.Unknown
		}
		w.History.End(op)
	}
}
