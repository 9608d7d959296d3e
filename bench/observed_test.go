package bench_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
)

// observed are ways to observe a Locker, the one without first.
var observed = subject.Named("quorumlock", "quorumlock-ends", "quorumlock-observed", "quorumlock-prometheus", "quorumlock-otel", "quorumlock-otel-traced")

// BenchmarkN_ObservedAcquire is A with telemetry.
func BenchmarkN_ObservedAcquire(b *testing.B) { each(b, observed, 5, acquires) }

// BenchmarkO_ObservedCycles is B with telemetry.
func BenchmarkO_ObservedCycles(b *testing.B) { each(b, observed, 5, cycles) }
