package main

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

var (
	errUnknown   = errors.New("no such account")
	errTooLittle = errors.New("the balance is too low")
)

// accounts are on a Redis server of their own.
type accounts struct{ pool *redis.Pool }

func newAccounts(url string) *accounts {
	return &accounts{&redis.Pool{
		DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialURLContext(ctx, url) },
		MaxIdle:     10,
		IdleTimeout: time.Minute,
	}}
}

// withdraw runs while the lock of the account is held; number is its fencing token. The read carries it too:
// after it no earlier holder can write. Every number leaves a guard, so a service that strangers reach first looks
// whether it has that account.
func (a *accounts) withdraw(ctx context.Context, id string, amount int, number uint64) error {
	conn, err := a.pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	do := fence.DoFunc(func(ctx context.Context, command string, args ...any) (any, error) {
		return redis.DoContext(conn, ctx, command, args...)
	})
	guard, balance := "{account-"+id+"}:guard", fence.Key("{account-"+id+"}:balance")
	replies, err := fence.Run(ctx, do, guard, number, fence.Command{"GET", balance})
	if err != nil {
		return err
	}
	left, err := redis.Int(replies[0], nil)
	switch {
	case errors.Is(err, redis.ErrNil):
		return errUnknown
	case err != nil:
		return err
	case left < amount:
		return errTooLittle
	}
	// Here a service asks others, with ctx, whether it may. Without that one command would do, and no lock.
	_, err = fence.Run(ctx, do, guard, number, fence.Command{"SET", balance, left - amount})
	return err
}
