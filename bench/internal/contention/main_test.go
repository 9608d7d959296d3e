package contention_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/bench/internal/contention"
	"github.com/quorumlock/quorumlock/bench/internal/subject"
)

func TestMain(m *testing.M) {
	contention.Serve(append(subject.All(), everybodyAtOnce, nobody))
	goleak.VerifyTestMain(m)
}

var (
	oneName = []string{"name"}

	// everybodyAtOnce lets any number of waiters hold the lock.
	everybodyAtOnce = subject.Subject{Name: "everybody", Open: func(subject.Setup) (subject.Client, error) { return open{}, nil }}
	// nobody has lost its servers.
	nobody = subject.Subject{Name: "nobody", Open: func(subject.Setup) (subject.Client, error) { return nil, os.ErrNotExist }}
)

// open is a lock that anyone gets.
type open struct{}

func (open) Caller(string) subject.Caller  { return open{} }
func (open) Close() error                  { return nil }
func (open) Acquire(context.Context) error { return nil }
func (open) Wait(context.Context) error    { return nil }
func (open) Release(context.Context) error { return nil }
