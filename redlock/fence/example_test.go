package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// startNodes starts servers that stand for the nodes of the lock.
func startNodes(n int) (urls []string, stop func()) {
	servers := make([]*miniredis.Miniredis, n)
	for i := range servers {
		var err error
		if servers[i], err = miniredis.Run(); err != nil {
			log.Fatal(err)
		}
		urls = append(urls, "redis://"+servers[i].Addr())
	}
	return urls, func() {
		for _, server := range servers {
			server.Close()
		}
	}
}

// dial connects to a server that stands for the resource.
func dial() (conn redis.Conn, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	conn, err = redis.Dial("tcp", server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	return conn, func() {
		conn.Close()
		server.Close()
	}
}

// over sends the commands of a check over a connection of redigo.
func over(conn redis.Conn) fence.DoFunc {
	return func(ctx context.Context, command string, args ...any) (any, error) {
		return redis.DoContext(conn, ctx, command, args...)
	}
}

func ExampleRun_held() {
	ctx := context.Background()
	urls, stopNodes := startNodes(3)
	defer stopNodes()
	conn, stop := dial()
	defer stop()
	do := over(conn)

	locker, err := redlock.Open(urls, redlock.WithFencing())
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	err = locker.Do(ctx, "account-7", func(ctx context.Context, lock *redlock.Lock) error {
		_, err := fence.Run(ctx, do, "account-7:guard", lock.Fence(), fence.Command{"SET", fence.Key("account-7"), 100})
		return err
	})
	fmt.Println(err)

	// Output:
	// <nil>
}

func ExampleDoFunc() {
	conn, stop := dial()
	defer stop()
	do := fence.DoFunc(func(ctx context.Context, command string, args ...any) (any, error) {
		return redis.DoContext(conn, ctx, command, args...)
	})

	replies, err := fence.Run(context.Background(), do, "account-7:guard", 33, fence.Command{"INCR", fence.Key("account-7")})
	fmt.Println(replies, err)

	// Output:
	// [1] <nil>
}

func ExampleRun() {
	conn, stop := dial()
	defer stop()

	replies, err := fence.Run(context.Background(), over(conn), "account-7:guard", 33,
		fence.Command{"DECRBY", fence.Key("account-7"), 10},
		fence.Command{"PUBLISH", "accounts", "account-7"}) // a channel is no key
	fmt.Println(replies, err)

	// Output:
	// [-10 0] <nil>
}

func ExampleKey() {
	command := fence.Command{"RENAME", fence.Key("{report}:draft"), fence.Key("{report}:final")}
	fmt.Println(command...)

	// Output:
	// RENAME {report}:draft {report}:final
}

func ExampleScript() {
	ctx := context.Background()
	conn, stop := dial()
	defer stop()
	withdraw, err := fence.NewScript(`
		if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then
			return redis.error_reply('POOR too little is left')
		end
		return redis.call('DECRBY', KEYS[1], ARGV[1])`)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := conn.Do("SET", "account-7", 100); err != nil {
		log.Fatal(err)
	}

	fmt.Println(redis.Int(withdraw.Run(ctx, over(conn), "account-7:guard", 33, []string{"account-7"}, 70)))
	fmt.Println(withdraw.Run(ctx, over(conn), "account-7:guard", 33, []string{"account-7"}, 70))

	// Output:
	// 30 <nil>
	// <nil> fence: "account-7:guard": POOR too little is left
}

func ExampleTransact() {
	ctx := context.Background()
	conn, stop := dial()
	defer stop()
	do := over(conn)
	// double reads, computes and writes. If a key changes meanwhile, it begins again.
	double := func(number uint64) (balance int, err error) {
		for {
			if _, err := do(ctx, "WATCH", "account-7"); err != nil {
				return 0, err
			}
			if balance, err = redis.Int(do(ctx, "GET", "account-7")); err != nil {
				return 0, err
			}
			_, err = fence.Transact(ctx, do, "account-7:guard", number, func() error {
				_, err := do(ctx, "SET", "account-7", 2*balance)
				return err
			})
			if !errors.Is(err, fence.ErrConflict) {
				return 2 * balance, err
			}
		}
	}
	if _, err := do(ctx, "SET", "account-7", 100); err != nil {
		log.Fatal(err)
	}
	fmt.Println(double(33))

	// Output:
	// 200 <nil>
}

func ExampleStaleError() {
	var gate fence.Gate
	nothing := func() error { return nil }
	fmt.Println(gate.Run("printer", 34, nothing))

	err := gate.Run("printer", 33, nothing)
	var stale *fence.StaleError
	fmt.Println(errors.Is(err, fence.ErrStale), errors.As(err, &stale))
	fmt.Println(stale.Resource, stale.Fence, stale.Seen)

	// Output:
	// <nil>
	// true true
	// printer 33 34
}

func ExampleValid() {
	fmt.Println(fence.Valid(33))
	fmt.Println(fence.Valid(0))
	fmt.Println(fence.Valid(1 << 53))

	// Output:
	// <nil>
	// fence: invalid argument: fence 0: the lock was taken without fencing
	// fence: invalid argument: fence 9007199254740992: must be below 2^53
}

func ExampleNewTable() {
	table, err := fence.NewTable(fence.PostgreSQL, "fence")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.Create())

	// Output:
	// CREATE TABLE IF NOT EXISTS fence (resource varchar(255) PRIMARY KEY, fence bigint NOT NULL)
}

// The check comes first in the transaction of the writes. In integration/example_sale_test.go it runs on databases.
func ExampleTable_Check() {
	withdraw := func(ctx context.Context, db *sql.DB, table *fence.Table, number uint64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // does nothing after Commit
		if err := table.Check(ctx, tx, "account-7", number); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE id = 7"); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = withdraw
}

// A column of the row that is written holds the highest fence.
func ExampleCheckUpdated() {
	deposit := func(ctx context.Context, db *sql.DB, number uint64) error {
		if err := fence.Valid(number); err != nil {
			return err
		}
		return fence.CheckUpdated(db.ExecContext(ctx,
			"UPDATE account SET balance = balance + ?, fence = ? WHERE id = ? AND fence <= ?", 10, number, 7, number))
	}
	_ = deposit
}

// Without fences, a version shows whether the row has changed since it was read.
func ExampleCheckUpdated_version() {
	rename := func(ctx context.Context, db *sql.DB, name string, version int64) error {
		return fence.CheckUpdated(db.ExecContext(ctx,
			"UPDATE account SET name = ?, version = version + 1 WHERE id = ? AND version = ?", name, 7, version))
	}
	_ = rename
}
