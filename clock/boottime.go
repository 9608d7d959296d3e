//go:build darwin || linux

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the machine started, suspend included. It returns false if the system refuses to
// tell, as it may because of a seccomp filter.
func sinceBoot() (time.Duration, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(bootClock, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
