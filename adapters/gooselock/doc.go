// Package gooselock has a [Locker] for github.com/pressly/goose/v3: if several instances of a program start the same migrations at
// once, one runs them while the others wait. The lock is one of package redlock, so it works for databases that have no locks of
// their own for sessions, such as SQLite and ClickHouse, and through a connection pooler such as PgBouncer. It survives the loss
// of a Redis server.
//
//	redlockLocker, err := redlock.Open(urls, redlock.WithKeyPrefix("shop:")) // "redis://10.0.0.1:6379" and so on
//	...
//	defer redlockLocker.Close()
//	ctx, cancel := context.WithCancelCause(ctx)
//	defer cancel(nil)
//	locker, err := gooselock.New(redlockLocker, "shop", gooselock.OnLoss(cancel), // a loss ends ctx
//		gooselock.LockOptions(redlock.MaxOutage(30*time.Second)))
//	...
//	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)") // of modernc.org/sqlite; see Waiting
//	...
//	defer db.Close()
//	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(locker))
//	...
//	applied, err := provider.Up(ctx)
//
// It needs goose 3.26 or newer. The functions of goose without a provider, such as goose.Up, use no lock: call them in
// redlock.Locker.Do.
//
// # Names
//
// The lock of the database shop has the name goose:shop ([NamePrefix]), which stays the same in all versions of this package. Name
// what is migrated, such as the database, or the schema if each has migrations of its own: then all versions of all programs that
// migrate it exclude each other. Do not use what changes, such as the host or the version of the program.
//
// A program with a lock of goose's own and one with this lock do not exclude each other. When a program changes from one to the
// other, no instance of the version before may migrate at the same time.
//
// # Waiting
//
// An instance waits until the lock is free, without a limit of its own: limit the context of Up, or give redlock.MaxWait with
// [LockOptions]. If the holder dies, the lock is free after its TTL. goose takes a connection from its database before it waits, and
// keeps it meanwhile. If too few Redis servers answer, the instance waits too, and only the log of the redlock.Locker says so:
// redlock.MaxOutage, as above, limits that.
//
// All methods of the provider that migrate take the lock, and so do Provider.Status and GetDBVersion, which wait while another instance
// migrates. Provider.HasPending and GetVersions do not, so their answer may be outdated.
//
// Up, UpByOne and UpTo begin with HasPending, so an instance uses the database while another migrates it. SQLite may then answer
// SQLITE_BUSY to either of them, and its Up fails. Prevent that by a busy_timeout in the DSN, as above.
//
// # Losses
//
// The lock may be lost while a migration runs: Redis cannot be reached for the TTL, or the key was deleted. Another instance may
// start the same migration then. goose returns the loss with its other errors when it has ended: it matches redlock.ErrLost.
// With [OnLoss], as above, goose is told at once: the statement that runs is cancelled, if the driver of the database can do that.
// A migration in a transaction is rolled back then. Neither prevents that a statement which was sent before takes effect
// afterwards. Where that matters, migrations have to be such that a second run fails or does nothing, for example in a transaction with
// the record of the version, as goose runs them by default.
package gooselock
