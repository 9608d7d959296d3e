//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/quorumlock/quorumlock/chaos/internal/failover"
)

// Waves has nodes fail over until ctx ends: atOnce of them or more, and fewer than twice as many. Between two waves is twice the time
// of the restart guard: otherwise a majority would be quarantined most of the time, and nobody would get a lock.
func (w *World) Waves(ctx context.Context, dice *rand.Rand, nodes *failover.Nodes, faults []failover.Fault, atOnce int) (all failover.Result, err error) {
	for ctx.Err() == nil {
		done, err := w.wave(dice, nodes, faults, atOnce+dice.IntN(atOnce))
		all.Add(done)
		if err != nil {
			return all, err
		}
		wait(ctx, 2*w.Guard)
	}
	return all, nil
}

func (w *World) wave(dice *rand.Rand, nodes *failover.Nodes, faults []failover.Fault, most int) (all failover.Result, err error) {
	hit, err := nodes.Pick(dice, most)
	if err != nil {
		return all, err
	}
	if common := together(faults); len(common) == 0 {
		hit = hit[:1]
	} else if len(hit) > 1 {
		faults = common
	}
	var mu sync.Mutex
	var striking sync.WaitGroup
	alike, seed := dice.IntN(2) == 0, dice.Uint64()
	for _, node := range hit {
		if !alike {
			seed = dice.Uint64()
		}
		own := rand.New(rand.NewPCG(seed, 0)) // equal faults happen at the same time
		f := faults[own.IntN(len(faults))]
		striking.Go(func() {
			done := w.record(f.What, []int{node}, nil)
			result, failed := nodes.Strike(f, node, own)
			done()
			mu.Lock()
			defer mu.Unlock()
			all.Add(result)
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("fault %s of node %d: %w", f.What, node, failed))
			}
		})
	}
	striking.Wait()
	return all, err
}

// together returns the faults that several nodes may have at once.
func together(faults []failover.Fault) (all []failover.Fault) {
	for _, f := range faults {
		if f.Together {
			all = append(all, f)
		}
	}
	return all
}
