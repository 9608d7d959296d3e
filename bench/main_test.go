package bench_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/bench/internal/contention"
	"github.com/quorumlock/quorumlock/bench/internal/relay"
	"github.com/quorumlock/quorumlock/bench/internal/subject"
)

func TestMain(m *testing.M) {
	contention.Serve(subject.All()) // in the processes of D, Q and R
	relay.Serve()                   // in that between P or Q and the servers
	goleak.VerifyTestMain(m)
}
