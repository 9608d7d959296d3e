//go:build darwin || freebsd || linux

package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/clock"
)

// Clock is a clock whose readings are the same in all processes of the machine. It counts suspend on Linux and macOS.
type Clock struct{}

var _ clock.Clock = Clock{}

// Now returns the reading as a time since 1970, which it is not.
func (Clock) Now() time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(sharedClock, &ts); err != nil {
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // which every system has
	}
	return time.Unix(0, ts.Nano())
}

// AfterFunc implements [clock.Clock].
func (Clock) AfterFunc(d time.Duration, f func()) clock.Timer { return time.AfterFunc(d, f) }
