// Package migratelock replaces the lock of a database driver of github.com/golang-migrate/migrate/v4: if several instances of a
// program start the same migrations at once, one runs them while the others wait. The lock is one of package redlock, so it works for
// databases whose drivers lock nothing across processes, such as SQLite and ClickHouse, and through a connection pooler such as
// PgBouncer. It survives the loss of a Redis server.
//
//	redlockLocker, err := redlock.Open(urls, redlock.WithKeyPrefix("shop:")) // "redis://10.0.0.1:6379" and so on
//	...
//	defer redlockLocker.Close()
//	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
//	...
//	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
//	...
//	locked, err := migratelock.New(driver, redlockLocker, "shop")
//	...
//	m, err := migrate.NewWithInstance("iofs", migrations, "sqlite", locked)
//	...
//	defer m.Close()
//	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) { // another instance has migrated: no change
//		return err
//	}
//
// The lock of the driver itself is not used any more while migrate works. Its functions Open and WithInstance
// create the table of the version before, under the lock of the driver. Where that is none, instances that start at once on a new database
// may fail there: SQLite with SQLITE_BUSY, unless it waits, as above.
//
// # Names
//
// The lock of the database shop has the name migrate:shop ([NamePrefix]), which stays the same in all versions of this package. Name
// what is migrated, such as the database, or the schema if each has migrations of its own: then all versions of all programs that
// migrate it exclude each other. Do not use what changes, such as the host or the version of the program.
//
// A program with the lock of the driver and one with this lock do not exclude each other. When a program changes from one to the
// other, no instance of the version before may migrate at the same time.
//
// # Waiting
//
// migrate gives up when a Lock has taken LockTimeout, a field of migrate.Migrate, 15 s by default. The Lock goes on: a lock that it
// gets later is never released by migrate, and keeps all instances out until the process ends. So a [Driver] waits for less, for
// [Wait], 10 s by default, and releases a lock that it gets more than a second later than that. If migrations take longer than that,
// set both:
//
//	locked, err := migratelock.New(driver, redlockLocker, "shop", migratelock.Wait(10*time.Minute))
//	...
//	m, err := migrate.NewWithInstance("iofs", migrations, "sqlite", locked)
//	...
//	m.LockTimeout = 11 * time.Minute
//
// A LockTimeout below Wait brings the danger back. [Driver.Close], which migrate.Migrate.Close calls, releases such a lock.
// While a migration runs, Close waits for it, and keeps the lock. A program that cannot wait exits: then the lock is free after its TTL,
// which may be before the database has ended the statement.
//
// An instance that has waited in vain has an error that matches database.ErrLocked and redlock.ErrTaken. If the holder
// dies, the lock is free after its TTL.
//
// # Losses
//
// The lock may be lost while a migration runs: Redis cannot be reached for the TTL, or the key was deleted. Another instance may
// start the same migration then. migrate returns the loss with its other errors when it has ended: it matches redlock.ErrLost.
// Then make a new migrate.Migrate, as the old one reports migrate.ErrLocked from then on.
//
// migrate cannot cancel a migration. But the [Driver] changes nothing after a loss that it knows of, and [OnLoss] is told of it at once.
// A migration that runs at that time leaves the database dirty: look at it, and use Force of migrate.Migrate.
//
// migrate marks the database as dirty while a migration runs, so another instance that comes meanwhile fails with
// migrate.ErrDirty, and does not run it a second time. It may if both read the version before either wrote it.
package migratelock
