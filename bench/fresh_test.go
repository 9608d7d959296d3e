package bench_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
)

// BenchmarkS_FreshNames is B with another name for each cycle, like that of an invoice, which is locked once and never
// again. With fencing each of them begins a counter on every node.
func BenchmarkS_FreshNames(b *testing.B) {
	subjects := subject.Named("floor", "quorumlock", "quorumlock-fenced", "redsync")
	for i, s := range subjects {
		subjects[i].Open = func(setup subject.Setup) (subject.Client, error) {
			client, err := s.Open(setup)
			return freshNames{client}, err
		}
	}
	each(b, subjects, 5, cycles)
}

// freshNames is a client whose callers take another name each time.
type freshNames struct{ subject.Client }

func (c freshNames) Caller(name string) subject.Caller {
	return &freshCaller{client: c.Client, name: name}
}

type freshCaller struct {
	client subject.Client
	name   string
	cycles int
	subject.Caller
}

func (c *freshCaller) Acquire(ctx context.Context) error {
	c.cycles++
	c.Caller = c.client.Caller(fmt.Sprintf("%s-%d", c.name, c.cycles))
	return c.Caller.Acquire(ctx)
}
