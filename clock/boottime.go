//go:build darwin || linux

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the machine started, suspend included, or false if the system refuses to tell, as a
// seccomp filter may make it do.
func sinceBoot() (time.Duration, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(bootClock, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
