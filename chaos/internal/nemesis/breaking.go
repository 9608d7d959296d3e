//go:build linux

package nemesis

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
)

// Break breaks an assumption of docs/safety.md, so that what it names goes wrong.
type Break struct {
	What    string
	Durable bool // the nodes are durable
	Faults  []Fault
	// Lists gives the clients different lists of nodes, from the first moment on.
	Lists bool
}

// Breaks returns one for each assumption.
func Breaks() []Break {
	return []Break{
		{What: "restart without a restart guard", Faults: []Fault{{"restart-empty", Breaking, restartMajority((*cluster.Server).Wipe)}}},
		{What: "old snapshot without a restart guard", Faults: []Fault{{"old-snapshot", Breaking, snapshotMajority}}},
		{What: "clock steps forward", Faults: []Fault{{"clock", Breaking, stepClocks}}},
		{What: "clock runs fast", Faults: []Fault{{"clock", Breaking, fastClocks}}},
		{What: "FLUSHALL without a restart guard", Faults: []Fault{{"flush", Breaking, flushMajority}}},
		{What: "DEL by hand", Faults: []Fault{{"delete", Breaking, deleteKeys}}},
		{What: "eviction", Faults: []Fault{{"eviction", Breaking, evict}}},
		{What: "two lists of nodes", Lists: true},
	}
}

// majority changes whom the fault concerns to a bare majority.
func (a *attack) majority() {
	a.nodes = nil
	for _, i := range a.dice.Perm(len(a.Nodes))[:len(a.Nodes)/2+1] {
		a.nodes = append(a.nodes, a.Nodes[i])
	}
}

func restartMajority(between func(*cluster.Server) error) func(*attack) error {
	return func(a *attack) error {
		a.majority()
		a.lasting = 0
		return a.restart("restart-empty", between)
	}
}

func snapshotMajority(a *attack) error {
	a.majority()
	a.lasting = min(a.lasting, 200*time.Millisecond)
	return oldSnapshot(a)
}

// stepClocks lets TTLs end early.
func stepClocks(a *attack) error {
	a.majority()
	a.lasting = 0
	return a.during("clock", a.nodes, nil, func() error {
		return each(a.nodes, func(j int) error {
			s := a.Cluster.Server(j)
			s.SetClock(s.ClockOffset()+a.Longest, 1)
			return nil
		})
	}, func() error { return nil })
}

func fastClocks(a *attack) error {
	a.majority()
	rate := func(rate float64) func() error {
		return func() error {
			for _, j := range a.nodes {
				a.Cluster.Server(j).SetClockRate(rate)
			}
			return nil
		}
	}
	return a.during("clock", a.nodes, nil, rate(2), rate(1))
}

func flushMajority(a *attack) error {
	a.majority()
	return flush(a)
}

func deleteKeys(a *attack) error {
	a.majority()
	a.lasting = 0
	return a.during("delete", a.nodes, nil, func() error {
		return each(a.nodes, func(j int) error {
			args := make([]any, len(a.Names))
			for i, n := range a.Names {
				args[i] = a.Prefix + n
			}
			_, err := a.Cluster.Server(j).Do("DEL", args...)
			return err
		})
	}, func() error { return nil })
}

// evict lets servers evict what they like, as if they were short of memory.
func evict(a *attack) error {
	a.majority()
	release, ok := a.take("server", a.nodes...)
	if !ok {
		return nil
	}
	defer release()
	set := func(policy string, memory int) func() error {
		return func() error {
			return each(a.nodes, func(j int) error {
				s := a.Cluster.Server(j)
				_, policyErr := s.Do("CONFIG", "SET", "maxmemory-policy", policy)
				_, memoryErr := s.Do("CONFIG", "SET", "maxmemory", memory)
				return errors.Join(policyErr, memoryErr)
			})
		}
	}
	a.lasting = min(a.lasting, 200*time.Millisecond)
	return a.during("eviction", a.nodes, nil, set("allkeys-random", 1), set("noeviction", 0))
}
