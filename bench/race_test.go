//go:build race

package bench_test

const raceDetector = true
