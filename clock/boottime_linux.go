package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock is a clock that counts suspend. CLOCK_MONOTONIC does not count it on Linux (clock_gettime(2)).
const bootClock = unix.CLOCK_BOOTTIME

// carry is for how long a reading of the boot clock is carried on, because each reading is a system call. It is short,
// so that anything that could hide a suspend from carried has little time for it.
const carry = 10 * time.Millisecond
