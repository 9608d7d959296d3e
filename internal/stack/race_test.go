//go:build race

package stack_test

// sample is smaller here: bubbles and the race detector together can crash Go's runtime
// (https://go.dev/issue/78156), seldom enough for this.
const sample = 150
