package gooselock_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"sync"
	"testing/fstest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/pressly/goose/v3"

	"github.com/quorumlock/quorumlock/adapters/gooselock"
	"github.com/quorumlock/quorumlock/redlock"
)

// migrate is what each instance of a program does when it starts. In a program, migrations are an embed.FS.
func migrate(ctx context.Context, urls []string, path string, migrations fs.FS) error {
	redlockLocker, err := redlock.Open(urls, redlock.WithKeyPrefix("shop:")) // "redis://10.0.0.1:6379" and so on
	if err != nil {
		return err
	}
	defer redlockLocker.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	locker, err := gooselock.New(redlockLocker, "shop", gooselock.OnLoss(cancel), // a loss ends ctx
		gooselock.LockOptions(redlock.MaxOutage(30*time.Second)))
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)") // of modernc.org/sqlite; see Waiting
	if err != nil {
		return err
	}
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(locker))
	if err != nil {
		return err
	}
	applied, err := provider.Up(ctx)
	for _, m := range applied {
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

	migrations := fstest.MapFS{
		"0001_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER PRIMARY KEY);\n")},
	}
	var instances sync.WaitGroup
	for range 2 {
		instances.Go(func() {
			if err := migrate(context.Background(), urls, filepath.Join(dir, "db"), migrations); err != nil {
				log.Fatal(err)
			}
		})
	}
	instances.Wait()

	// Output:
	// applied 0001_orders.sql
}
