package redlock_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if plan := os.Getenv(childPlan); plan != "" {
		os.Exit(runChild(plan))
	}
	goleak.VerifyTestMain(m)
}
