package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

const lockName = "quorumlock-example"

// The keys on the server of the stock share a hash tag, as Redis Cluster wants of keys that are used
// together.
const (
	stockKey = "{quorumlock-example}:stock" // how many items are left
	salesKey = "{quorumlock-example}:sales" // what was sold: the fencing token of each sale
	fenceKey = "quorumlock-example:guard"   // the highest fencing token that was seen
)

// seller sells items, one after the other.
type seller struct {
	locker  *redlock.Locker // with redlock.WithFencing
	conn    redis.Conn      // to the server of the stock
	checked bool
	in      *bufio.Scanner
	out     io.Writer
}

// sell sells an item, and returns hasSold or soldOut. If the error is [fence.ErrStale], a newer
// holder of the lock has been at the stock and nothing was sold.
func (s *seller) sell(ctx context.Context) (what string, err error) {
	lock, err := s.locker.Lock(ctx, lockName)
	if err != nil {
		return "", err
	}
	// Whether the lock was held to the end does not matter any more: what was written was checked.
	defer func() { _ = lock.Unlock(ctx) }()

	left, err := s.read(ctx, lock.Fence())
	if err != nil {
		return "", err
	}
	if left == 0 {
		return soldOut, nil
	}
	// To ask lock.Err() here would not help: the process may be stopped between that and the write.
	fmt.Fprintln(s.out, hasRead, left)
	s.in.Scan() // this is where it is stopped
	return hasSold, s.write(ctx, lock.Fence(), left-1)
}

// read returns how many items are left. It is checked too: after it the server refuses holders of
// earlier locks, so that what was read stays true until this holder writes or is refused itself.
func (s *seller) read(ctx context.Context, token uint64) (int, error) {
	if !s.checked {
		return redis.Int(s.conn.Do("GET", stockKey))
	}
	replies, err := fence.Run(ctx, fence.DoFunc(s.do), fenceKey, token, fence.Command{"GET", fence.Key(stockKey)})
	if err != nil {
		return 0, err
	}
	return redis.Int(replies[0], nil)
}

// do sends a command to the server of the stock.
func (s *seller) do(ctx context.Context, command string, args ...any) (any, error) {
	return redis.DoContext(s.conn, ctx, command, args...)
}

// write records a sale, and how many items are left after it.
func (s *seller) write(ctx context.Context, token uint64, left int) error {
	if s.checked {
		_, err := fence.Run(ctx, fence.DoFunc(s.do), fenceKey, token,
			fence.Command{"SET", fence.Key(stockKey), left},
			fence.Command{"RPUSH", fence.Key(salesKey), token})
		return err
	}
	_ = s.conn.Send("MULTI") // an error comes with the next command
	_ = s.conn.Send("SET", stockKey, left)
	_ = s.conn.Send("RPUSH", salesKey, token)
	_, err := s.conn.Do("EXEC")
	return err
}

// A seller is a process that sale.go has started. It is sent a line for each buyer and, after each
// hasRead, a line to go on. It prints what it did, one of these, and the stock that it has read.
const (
	hasRead = "read"
	hasSold = "sold"
	refused = "refused"
	soldOut = "soldout"
)

// serve sells to the buyers that come in, until there are no more.
func (t task) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	locker, err := redlock.Open(strings.Split(t.nodes, ","), pool.WithTimeout(t.ttl/2),
		redlock.TTL(t.ttl), redlock.WithFencing())
	if err != nil {
		return err
	}
	defer locker.Close()
	conn, err := redis.DialURL(t.stock)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &seller{locker, conn, t.checked, bufio.NewScanner(in), out}
	for s.in.Scan() {
		what, err := s.sell(ctx)
		switch {
		case errors.Is(err, fence.ErrStale):
			what = refused
		case err != nil:
			return err
		}
		fmt.Fprintln(out, what, 0)
	}
	return nil
}
