package clock

import "golang.org/x/sys/unix"

// bootClock is a clock that counts sleep on macOS. CLOCK_UPTIME_RAW and mach_absolute_time do not count it
// (clock_gettime(3)). The clock may step back now and then (github.com/erlang/otp/pull/5825), but the readings of type
// system never step back.
const bootClock = unix.CLOCK_MONOTONIC

// carry is 0: a reading is no system call here.
const carry = 0
