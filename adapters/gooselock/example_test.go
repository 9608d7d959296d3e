package gooselock_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"testing/fstest"

	"github.com/alicebob/miniredis/v2"
	"github.com/pressly/goose/v3"

	"github.com/quorumlock/quorumlock/adapters/gooselock"
	"github.com/quorumlock/quorumlock/redlock"
)

var migrationFiles = fstest.MapFS{ // in a program, an embed.FS
	"0001_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER PRIMARY KEY);\n")},
}

// migrate is what each instance of a program does when it starts.
func migrate(ctx context.Context, servers *redlock.Locker, db *sql.DB) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	locker, err := gooselock.New(servers, "shop", gooselock.OnLoss(cancel)) // a loss ends ctx
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrationFiles, goose.WithLocker(locker))
	if err != nil {
		return err
	}
	done, err := provider.Up(ctx)
	for _, m := range done {
		fmt.Println("applied", m.Source.Path)
	}
	return err
}

func Example() {
	var urls []string
	for range 3 {
		server, err := miniredis.Run() // a Redis server inside the program, for the example
		if err != nil {
			log.Fatal(err)
		}
		defer server.Close()
		urls = append(urls, "redis://"+server.Addr())
	}
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	var instances sync.WaitGroup
	for range 2 {
		instances.Go(func() {
			servers, err := redlock.Open(urls)
			if err != nil {
				log.Fatal(err)
			}
			defer servers.Close()
			db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "db")+"?_pragma=busy_timeout(5000)")
			if err != nil {
				log.Fatal(err)
			}
			defer db.Close()
			if err := migrate(context.Background(), servers, db); err != nil {
				log.Fatal(err)
			}
		})
	}
	instances.Wait()

	// Output:
	// applied 0001_orders.sql
}
