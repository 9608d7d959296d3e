package gocronlock_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test program is also the program of the instances that the tests start.
func TestMain(m *testing.M) {
	if what := os.Getenv(envInstance); what != "" {
		if err := instance(what); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
