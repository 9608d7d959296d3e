//go:build race

package stack_test

import "runtime"

// sample is how many plans the tests run: fewer than without the race detector, which makes them slow.
const sample = 200

// threads leaves one thread to a bubble until the returned function is called: if two run timers of the same bubble, the race
// detector of Go 1.26 may crash (https://go.dev/issue/78156). Which goroutine goes first is still a matter of chance.
func threads() (restore func()) {
	before := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(before) }
}
