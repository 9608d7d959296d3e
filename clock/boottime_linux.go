package clock

import "golang.org/x/sys/unix"

// bootClock counts suspend, which CLOCK_MONOTONIC does not on Linux (clock_gettime(2)).
const bootClock = unix.CLOCK_BOOTTIME
