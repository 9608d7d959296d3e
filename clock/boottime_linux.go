package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock counts suspend, which CLOCK_MONOTONIC does not on Linux (clock_gettime(2)).
const bootClock = unix.CLOCK_BOOTTIME

// carry is for how long a reading of the boot clock is carried on, as reading one is a system call. It is short, so that
// whatever could hide a suspend from carried has little time for it.
const carry = 10 * time.Millisecond
