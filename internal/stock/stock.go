// Package stock is a sale in which holders of a lock are paused for longer than it lasts, to see what a fencing token is for.
//
// Buyers in several processes want the items of one stock, which is a number on a Redis server, the resource. Each sale takes the
// lock, reads the stock and writes one less (sale.go). Holders are stopped (SIGSTOP) between the two until their lock has expired
// and another one has it, and then go on. Without a check on the resource's side they undo what others have written; with a
// fence (till.go) they are refused. The processes are this program again: see [Serve].
package stock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/process"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	clientName = "redlock-stock"
	// patience is how long nothing at all may happen, and how long the resource may take for a command.
	patience = 30 * time.Second
	// parting is how long it may take to leave everything as it was.
	parting = 5 * time.Second
	// asking is how long a node may take where nothing has to be quick.
	asking = 2 * time.Second
)

// ErrUnsupported says that this system cannot stop a process in its tracks.
var ErrUnsupported = fmt.Errorf("no process can be stopped in its tracks (SIGSTOP) on %s: %w", runtime.GOOS, errors.ErrUnsupported)

// Supported returns nil where [Run] can do what it does, and [ErrUnsupported] elsewhere.
func Supported() error {
	if !process.CanFreeze {
		return ErrUnsupported
	}
	return nil
}

// Plan is what a sale is made of. For all pauses to come, Items must be well above 10 for each, and so must be the buyers of every
// process but one.
type Plan struct {
	Nodes     []string // URLs of the servers that the lock is on
	Resource  string   // URL of the server that the stock is on, redis:// or rediss://
	Items     int
	Buyers    int
	Processes int // of the buyers: at least 2
	Pauses    int // how many holders are paused
	Checked   bool
	TTL       time.Duration // of the lock
	Timeout   time.Duration // how long a node may take

	// Paused is told of every pause when the late write is done or refused, if it is not nil.
	Paused func(Pause)
}

// Run carries out the sale, and returns when all buyers have been served and nothing of it is left: neither processes, nor keys on
// nodes that answer. Whether it went as it should is for [Result.Err].
func Run(ctx context.Context, p Plan) (_ *Result, err error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	prefix := "redlock-stock:" + strings.ToLower(rand.Text()[:8]) + ":"
	conn, err := dial(p.Resource)
	if err != nil {
		return nil, fmt.Errorf("stock: the resource: %w", err)
	}
	defer conn.Close()
	nodes, err := pool.Open(p.Nodes, pool.WithTimeout(asking), pool.WithClientName(clientName))
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, node := range nodes {
			_ = node.Close() // of a pool that has no connection any more
		}
	}()
	locker, err := redlock.New(nodes)
	if err != nil {
		return nil, err
	}
	defer locker.Close()
	if _, err := locker.Inspect(ctx, lockName(prefix)); err != nil {
		return nil, err // too few nodes are there
	}
	keys := keysOf(prefix)
	if err := open(conn, keys, p.Items); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tidy(ctx, locker, conn, prefix)) }()

	d := &director{plan: p, result: &Result{Plan: p}}
	if err := d.run(ctx, prefix); err != nil {
		return nil, err
	}
	return d.result, d.result.audit(conn, keys)
}

// tidy deletes what the sale has left: the processes have ended.
func tidy(ctx context.Context, locker *redlock.Locker, conn redis.Conn, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	k := keysOf(prefix)
	_, err := conn.Do("DEL", k.stock, k.sales, k.fence)
	if err != nil {
		err = fmt.Errorf("stock: the keys on the resource are not deleted: %w", err)
	}
	name := lockName(prefix)
	return errors.Join(err, locker.ForceUnlock(ctx, name), locker.ForceUnlock(ctx, "{"+name+"}:fence")) // the counter of the tokens
}

func lockName(prefix string) string { return prefix + "lock" }

func dial(url string) (redis.Conn, error) {
	return redis.DialURL(url, redis.DialClientName(clientName), redis.DialConnectTimeout(patience),
		redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
}
