package migratelock_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/dev/testdatabase"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := testdatabase.Close(); err != nil && code == 0 {
		panic(err)
	}
	if err := goleak.Find(
		// migrate leaves it behind for a migration that does not run after an error.
		goleak.IgnoreAnyFunction("github.com/golang-migrate/migrate/v4.(*Migration).Buffer")); err != nil && code == 0 {
		panic(err)
	}
	os.Exit(code)
}
