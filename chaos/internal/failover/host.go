package failover

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// host is what testredis starts servers for, in the place of a test.
type host struct {
	testing.TB           // nil: testredis calls the methods below alone
	log        io.Writer // of the servers, if something has failed

	mu       sync.Mutex
	failed   error
	cleanups []func()
}

// try calls f, and returns the error if something has failed. What is fatal ends f.
func (h *host) try(f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	return h.failure()
}

// close ends everything, the latest first.
func (h *host) close() error {
	return h.try(func() {
		for _, f := range slices.Backward(h.cleanups) {
			f()
		}
	})
}

func (h *host) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

func (h *host) Helper() {}

func (h *host) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, f)
}

func (h *host) Failed() bool { return h.failure() != nil }

func (h *host) Logf(format string, args ...any) { fmt.Fprintf(h.log, format+"\n", args...) }

func (h *host) Error(args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = errors.Join(h.failed, errors.New(fmt.Sprint(args...)))
}

func (h *host) Errorf(format string, args ...any) { h.Error(fmt.Sprintf(format, args...)) }

func (h *host) Fatal(args ...any) {
	h.Error(args...)
	runtime.Goexit()
}

func (h *host) Fatalf(format string, args ...any) { h.Fatal(fmt.Sprintf(format, args...)) }

// Skip fails: a run without servers shows nothing.
func (h *host) Skip(args ...any) { h.Fatal(args...) }
