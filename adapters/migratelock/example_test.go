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
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/quorumlock/quorumlock/adapters/migratelock"
	"github.com/quorumlock/quorumlock/redlock"
)

// migrateUp is what each instance of a program does when it starts. In a program, migrations are made of an embed.FS.
func migrateUp(urls []string, path string, migrations source.Driver) error {
	redlockLocker, err := redlock.Open(urls, redlock.WithKeyPrefix("shop:")) // "redis://10.0.0.1:6379" and so on
	if err != nil {
		return err
	}
	defer redlockLocker.Close()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		return err
	}
	locked, err := migratelock.New(driver, redlockLocker, "shop")
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", migrations, "sqlite", locked)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) { // another instance has migrated: no change
		return err
	}
	version, dirty, err := m.Version()
	fmt.Println("version", version, "dirty", dirty)
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

	files := fstest.MapFS{
		"1_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER PRIMARY KEY);")},
	}
	var instances sync.WaitGroup
	for range 2 {
		instances.Go(func() {
			migrations, err := iofs.New(files, ".")
			if err != nil {
				log.Fatal(err)
			}
			if err := migrateUp(urls, filepath.Join(dir, "db"), migrations); err != nil {
				log.Fatal(err)
			}
		})
	}
	instances.Wait()

	// Output:
	// version 1 dirty false
	// version 1 dirty false
}

// Migrations that take long need both limits.
func ExampleWait() {
	redlockLocker, err := redlock.Open([]string{"redis://10.0.0.1:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer redlockLocker.Close()
	migrations, err := iofs.New(fstest.MapFS{"1_orders.up.sql": {}}, ".")
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		log.Fatal(err)
	}

	locked, err := migratelock.New(driver, redlockLocker, "shop", migratelock.Wait(10*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", migrations, "sqlite", locked)
	if err != nil {
		log.Fatal(err)
	}
	m.LockTimeout = 11 * time.Minute
	fmt.Println(m.Close())
	// Output: <nil> <nil>
}
