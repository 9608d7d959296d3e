package clock

import "golang.org/x/sys/unix"

// bootClock counts sleep on macOS, which CLOCK_UPTIME_RAW and mach_absolute_time do not (clock_gettime(3)). It may step
// back now and then (github.com/erlang/otp/pull/5825), which system does not pass on.
const bootClock = unix.CLOCK_MONOTONIC

// carry is 0: a reading is no system call here.
const carry = 0
