//go:build !race

package stack_test

// sample is how many plans the tests run.
const sample = 500

func threads() (restore func()) { return func() {} }
