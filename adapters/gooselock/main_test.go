package gooselock_test

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
	if err := goleak.Find(); err != nil && code == 0 {
		panic(err)
	}
	os.Exit(code)
}
