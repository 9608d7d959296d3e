package bench_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
)

// BenchmarkT_Together is A for the locks of eight names that one call takes, beside the lock of one name.
func BenchmarkT_Together(b *testing.B) {
	each(b, subject.Named("quorumlock", "quorumlock-all", "quorumlock-fenced", "quorumlock-all-fenced"), 5, acquires)
}
