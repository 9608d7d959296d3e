package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

// dial connects to a server that stands for the one that is written to.
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

func Example() {
	conn, stop := dial()
	defer stop()
	write := func(token uint64, balance int) error {
		_, err := fence.Run(conn, "account-7:fence", token, fence.Command{"SET", fence.Key("account-7"), balance})
		return err
	}

	fmt.Println(write(33, 100))
	fmt.Println(write(34, 90)) // by the next holder
	fmt.Println(write(33, 80)) // by the first, who was paused

	// Output:
	// <nil>
	// <nil>
	// fence: "account-7:fence": token 33 is stale: a newer holder has been here, with token 34
}

func ExampleRun() {
	conn, stop := dial()
	defer stop()

	replies, err := fence.Run(conn, "account-7:fence", 33,
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

	fmt.Println(redis.Int(withdraw.Run(conn, "account-7:fence", 33, []string{"account-7"}, 70)))
	fmt.Println(withdraw.Run(conn, "account-7:fence", 33, []string{"account-7"}, 70))

	// Output:
	// 30 <nil>
	// <nil> fence: "account-7:fence": POOR too little is left
}

func ExampleTransact() {
	conn, stop := dial()
	defer stop()
	// double reads, computes and writes; a change that comes between makes it begin again.
	double := func(token uint64) (balance int, err error) {
		for {
			if _, err := conn.Do("WATCH", "account-7"); err != nil {
				return 0, err
			}
			if balance, err = redis.Int(conn.Do("GET", "account-7")); err != nil {
				return 0, err
			}
			_, err = fence.Transact(conn, "account-7:fence", token, func() error {
				_, err := conn.Do("SET", "account-7", 2*balance)
				return err
			})
			if !errors.Is(err, fence.ErrConflict) {
				return 2 * balance, err
			}
		}
	}
	if _, err := conn.Do("SET", "account-7", 100); err != nil {
		log.Fatal(err)
	}
	fmt.Println(double(33))

	// Output:
	// 200 <nil>
}

// goRedis stands for a *redis.Client of github.com/redis/go-redis/v9, or for a *redis.Conn of it, which Transact needs.
type goRedis struct{ conn redis.Conn }

type goRedisCmd struct {
	reply any
	err   error
}

var errGoRedisNil = errors.New("redis: nil") // redis.Nil there

func (c goRedis) Do(_ context.Context, args ...any) goRedisCmd {
	reply, err := c.conn.Do(args[0].(string), args[1:]...)
	if reply == nil && err == nil {
		err = errGoRedisNil
	}
	return goRedisCmd{reply, err}
}

func (c goRedisCmd) Result() (any, error) { return c.reply, c.err }

// Another client needs a function: this is the one for go-redis. It says where the context goes, and makes nil of redis.Nil.
func ExampleDoFunc() {
	conn, stop := dial()
	defer stop()
	ctx, client := context.Background(), goRedis{conn}

	do := fence.DoFunc(func(command string, args ...any) (any, error) {
		reply, err := client.Do(ctx, append([]any{command}, args...)...).Result()
		if errors.Is(err, errGoRedisNil) {
			return nil, nil
		}
		return reply, err
	})
	fmt.Println(fence.Run(do, "account-7:fence", 33, fence.Command{"INCR", fence.Key("account-7")}))

	// Output:
	// [1] <nil>
}

func ExampleStaleError() {
	var gate fence.Gate
	nothing := func() error { return nil }
	fmt.Println(gate.Run("printer", 34, nothing))

	err := gate.Run("printer", 33, nothing)
	var stale *fence.StaleError
	fmt.Println(errors.Is(err, fence.ErrStale), errors.As(err, &stale))
	fmt.Println(stale.Resource, stale.Token, stale.Seen)

	// Output:
	// <nil>
	// true true
	// printer 33 34
}

func ExampleGate() {
	var gate fence.Gate
	print := func(page string) func() error {
		return func() error {
			fmt.Println("printing", page)
			return nil
		}
	}
	fmt.Println(gate.Run("printer", 33, print("page 1")))
	fmt.Println(gate.Run("printer", 34, print("cover")))
	fmt.Println(gate.Run("printer", 33, print("page 2")))

	// Output:
	// printing page 1
	// <nil>
	// printing cover
	// <nil>
	// fence: "printer": token 33 is stale: a newer holder has been here, with token 34
}

func ExampleCheckToken() {
	fmt.Println(fence.CheckToken(33))
	fmt.Println(fence.CheckToken(0))
	fmt.Println(fence.CheckToken(1 << 53))

	// Output:
	// <nil>
	// fence: token 0: the lock was taken without fencing
	// fence: token 9007199254740992: must be below 2^53
}

func ExampleNewTable() {
	table, err := fence.NewTable(fence.PostgreSQL, "fence")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.Create())

	// Output:
	// CREATE TABLE IF NOT EXISTS fence (resource varchar(255) PRIMARY KEY, token bigint NOT NULL)
}

// The writes are in the transaction of the check, behind it.
func ExampleTable_Pass() {
	withdraw := func(ctx context.Context, db *sql.DB, table *fence.Table, token uint64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // does nothing after Commit
		if err := table.Pass(ctx, tx, "account-7", token); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE id = 7"); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = withdraw
}

// A column of the row that is written holds the highest token.
func ExampleUpdated() {
	deposit := func(ctx context.Context, db *sql.DB, token uint64) error {
		if err := fence.CheckToken(token); err != nil {
			return err
		}
		return fence.Updated(db.ExecContext(ctx,
			"UPDATE account SET balance = balance + ?, fence = ? WHERE id = ? AND fence <= ?", 10, token, 7, token))
	}
	_ = deposit
}

// Without tokens, a version says whether the row is still as it was read.
func ExampleUpdated_version() {
	rename := func(ctx context.Context, db *sql.DB, name string, version int64) error {
		return fence.Updated(db.ExecContext(ctx,
			"UPDATE account SET name = ?, version = version + 1 WHERE id = ? AND version = ?", name, 7, version))
	}
	_ = rename
}
