package certmagiclock_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(instanceEnv) != "" {
		instance()
		return
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/letsencrypt/pebble/v2/va.VAImpl.processTasks"), // which never ends
	)
}
