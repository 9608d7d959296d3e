package relay_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/bench/internal/relay"
)

func TestMain(m *testing.M) {
	relay.Serve()
	goleak.VerifyTestMain(m)
}
