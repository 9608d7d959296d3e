//go:build linux

package nemesis

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
)

// Procedure is a change of the servers by the rules of docs/operations.md, while locks are taken.
type Procedure struct {
	What string
	run  func(context.Context, *World, func(nodes []int) error) error
}

// Procedures returns those that docs/operations.md describes.
func Procedures() []Procedure {
	return []Procedure{
		{"rolling restart", rollingRestart},
		{"replacement at the same address", replaceInPlace},
		{"replacement at another address", replaceElsewhere},
		{"from five nodes to three", shrink},
		{"from three nodes to five", grow},
	}
}

// Run carries the procedure out. Open gives each client process another list of nodes, one after the other.
func (p Procedure) Run(ctx context.Context, w *World, open func(nodes []int) error) error {
	w.Log("begins: %s", p.What)
	defer w.Log("done: %s", p.What)
	return p.run(ctx, w, open)
}

// settle waits until a node that was started grants locks and counts for those that are held: its quarantine, and the longest TTL.
// With the restart guard the TTL is over by then.
func (w *World) settle(ctx context.Context) {
	if w.Guard > 0 {
		wait(ctx, w.Guard+w.Guard/100+2*time.Second)
		return
	}
	wait(ctx, w.Longest+w.Longest/100)
}

func rollingRestart(ctx context.Context, w *World, _ func([]int) error) error {
	for _, j := range w.Nodes {
		s := w.Cluster.Server(j)
		done := w.record("restart", []int{j}, nil)
		err := errors.Join(s.Shutdown(), s.Start())
		done()
		if err != nil {
			return err
		}
		w.settle(ctx)
	}
	return nil
}

func replaceInPlace(ctx context.Context, w *World, _ func([]int) error) error {
	s := w.Cluster.Server(w.Nodes[0])
	done := w.record("replace", w.Nodes[:1], nil)
	defer done()
	s.Stop()
	if w.Guard == 0 {
		wait(ctx, w.Longest+w.Longest/100) // without the restart guard, and for durable nodes, whose replacement is not detected
	}
	if err := errors.Join(s.Wipe(), s.Start()); err != nil {
		return err
	}
	w.settle(ctx)
	return nil
}

func replaceElsewhere(ctx context.Context, w *World, open func([]int) error) error {
	done := w.record("replace", w.Nodes[:1], nil)
	defer done()
	w.Cluster.Server(w.Nodes[0]).Stop()
	if w.Guard == 0 {
		wait(ctx, w.Longest+w.Longest/100)
	}
	j, err := w.add(ctx)
	if err != nil {
		return err
	}
	w.setNodes(append([]int{j}, w.Nodes[1:]...))
	if err := open(w.Nodes); err != nil {
		return err
	}
	w.settle(ctx)
	return nil
}

// add starts another server, empty.
func (w *World) add(ctx context.Context) (int, error) {
	_, err := w.Cluster.AddServer(ctx, cluster.ServerConfig{Durable: w.Durable})
	return len(w.Cluster.Servers()) - 1, err
}

// change gives all clients another list of nodes, which differs by one, and waits until no lock of the old one is left.
func (w *World) change(ctx context.Context, open func([]int) error, nodes []int) error {
	done := w.record("node-set", nodes, nil)
	defer done()
	w.setNodes(nodes)
	if err := open(nodes); err != nil {
		return err
	}
	wait(ctx, w.Longest)
	return nil
}

func shrink(ctx context.Context, w *World, open func([]int) error) error {
	for range 2 {
		removed := w.Nodes[len(w.Nodes)-1]
		if err := w.change(ctx, open, w.Nodes[:len(w.Nodes)-1]); err != nil {
			return err
		}
		w.Cluster.Server(removed).Stop()
	}
	return nil
}

func grow(ctx context.Context, w *World, open func([]int) error) error {
	for range 2 {
		j, err := w.add(ctx)
		if err != nil {
			return err
		}
		if err := w.change(ctx, open, append(slices.Clone(w.Nodes), j)); err != nil {
			return err
		}
	}
	return nil
}
