// Package clock measures how much of a lease has gone by.
//
// Go's monotonic clock stands still while most machines are suspended, and Redis's clock on another machine does not.
// So a holder that measured its lease with time.Now could wake up and believe in a lease that is long gone. System
// counts that time too. Programs test with package redlock/redlocktest, which brings a clock of its own.
//
// A pause that the operating system does not notice, such as a virtual machine stopped by its host, may go uncounted.
package clock

import "time"

// Clock measures how much time has gone by and runs functions later. Implementations are safe for concurrent use.
type Clock interface {
	// Now returns a reading without Go's monotonic part. The difference between two readings of one Clock is the time that
	// went by between them, suspend included. Readings of two Clocks must not be compared.
	Now() time.Time

	// AfterFunc runs f on its own goroutine once d has gone by; zero or less means at once. It does not block. f may run
	// late, so it must read Now before it decides anything about a lease.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is one pending call of AfterFunc. A *time.Timer is one. Its methods are safe for concurrent use.
type Timer interface {
	// Stop keeps the function from running. It returns false if the function has been started or stopped already,
	// and does not wait for a started function to end.
	Stop() bool

	// Reset makes the function run once d has gone by from now; zero or less means at once. It returns what Stop
	// would have returned.
	Reset(d time.Duration) bool
}
