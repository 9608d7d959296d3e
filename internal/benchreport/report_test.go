package benchreport_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/benchreport"
)

func TestDuration_HasThreeOrFourDigits(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0 µs":     0,
		"351 µs":   351 * time.Microsecond,
		"99.99 ms": 99990 * time.Microsecond,
		"492 ms":   492300 * time.Microsecond,
		"9.90 s":   9898 * time.Millisecond,
	} {
		assert.Equal(t, want, benchreport.Duration(d))
	}
}
