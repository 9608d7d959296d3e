// Package subject puts the lock libraries that are compared behind one face.
package subject

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// TTL is that of every lock.
const TTL = 10 * time.Second

// Setup is what a client is made for.
type Setup struct {
	Addrs   []string      // host:port of every node
	Callers int           // how many will use it at the same time; pools keep connections for all
	Timeout time.Duration // for what one node is asked; every library has its own way to count it
}

// Subject is one way to take locks.
type Subject struct {
	Name     string
	MaxNodes int // 1 for libraries that know one server only, otherwise 0
	Open     func(Setup) (Client, error)
}

// Client is a subject that is connected to its nodes. It may be used by many goroutines.
type Client interface {
	// Caller returns one who takes and gives back the lock of a name. It is for one goroutine.
	Caller(name string) Caller

	// Close ends the connections. No caller may be in the middle of anything.
	Close() error
}

// Caller takes a lock and gives it back, in turn. The lock's state lives in the Caller, so that what the
// measurement itself allocates is nothing.
type Caller interface {
	Acquire(ctx context.Context) error
	Release(ctx context.Context) error
}

// Waiter is a Caller that can also wait for whoever holds the lock. Wait comes in the place of Acquire, and gives up
// only when ctx ends.
type Waiter interface {
	Caller
	Wait(ctx context.Context) error
}

// Writers is a Client whose callers share their locks, beside writers who keep all of them out.
type Writers interface {
	Client
	Writer(name string) Caller
}

// All returns every subject, the floor first.
func All() []Subject {
	return []Subject{
		{Name: "floor", Open: openFloor},
		{Name: "quorumlock", Open: openQuorumlock},
		{Name: "quorumlock-lock", Open: openLock},
		{Name: "quorumlock-handoff", Open: openHandoff(5 * time.Millisecond)},
		{Name: "quorumlock-handoff-10ms", Open: openHandoff(10 * time.Millisecond)},
		{Name: "quorumlock-handoff-fenced", Open: openHandoff(5*time.Millisecond, redlock.WithFencing())},
		{Name: "quorumlock-fenced", Open: openFenced},
		{Name: "quorumlock-shared", Open: openRead},
		{Name: "quorumlock-slot", Open: openSlot},
		{Name: "quorumlock-all", Open: openAll(8)},
		{Name: "quorumlock-all-fenced", Open: openAll(8, redlock.WithFencing())},
		{Name: "quorumlock-ends", Open: openEnds},
		{Name: "quorumlock-observed", Open: openObserved},
		{Name: "quorumlock-prometheus", Open: openPrometheus},
		{Name: "quorumlock-otel", Open: openOtel},
		{Name: "quorumlock-otel-traced", Open: openOtelTraced},
		{Name: "redsync", Open: openRedsync},
		{Name: "redsync-failfast", Open: openRedsyncFailFast},
		{Name: "redsync-goredis", Open: openRedsyncGoredis},
		{Name: "bsm-redislock", MaxNodes: 1, Open: openRedislock},
	}
}

// Named returns subjects in the order of the names.
func Named(names ...string) []Subject {
	all := All()
	some := make([]Subject, len(names))
	for i, name := range names {
		at := slices.IndexFunc(all, func(s Subject) bool { return s.Name == name })
		if at < 0 {
			panic(fmt.Sprintf("subject: there is no %q", name))
		}
		some[i] = all[at]
	}
	return some
}
