package migratelock_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"testing/fstest"

	"github.com/alicebob/miniredis/v2"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/quorumlock/quorumlock/adapters/migratelock"
	"github.com/quorumlock/quorumlock/redlock"
)

var migrationFiles = fstest.MapFS{ // in a program, an embed.FS
	"1_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER PRIMARY KEY);")},
}

// migrateUp is what each instance of a program does when it starts.
func migrateUp(servers *redlock.Locker, db *sql.DB) (changed bool, err error) {
	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		return false, err
	}
	locked, err := migratelock.New(driver, servers, "shop")
	if err != nil {
		return false, err
	}
	source, err := iofs.New(migrationFiles, ".")
	if err != nil {
		return false, err
	}
	m, err := migrate.NewWithInstance("iofs", source, "sqlite", locked)
	if err != nil {
		return false, err
	}
	err = m.Up()
	changed = err == nil
	if errors.Is(err, migrate.ErrNoChange) { // another instance has migrated
		err = nil
	}
	sourceErr, dbErr := m.Close() // also of db
	return changed, errors.Join(err, sourceErr, dbErr)
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
			db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "db")+"?_pragma=busy_timeout(10000)")
			if err != nil {
				log.Fatal(err)
			}
			changed, err := migrateUp(servers, db)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("changed:", changed)
		})
	}
	instances.Wait()

	// Unordered output:
	// changed: true
	// changed: false
}
