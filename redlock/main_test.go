package redlock_test

import (
	"flag"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if plan := os.Getenv(childPlan); plan != "" {
		os.Exit(runChild(plan))
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // most of the tests break something
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		// Most of the tests wait most of the time: for servers, and for TTLs.
		_ = flag.Set("test.parallel", "6")
	}
	goleak.VerifyTestMain(m)
}
