package sim_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/sim"
)

func TestNoPlanBreaksAPromise(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("SEEDS"))
	if n == 0 {
		n = 2000
	}
	bad := 0
	for seed := range n {
		p := sim.NewPlan(uint64(seed))
		if v := sim.Run(p); v != nil {
			bad++
			if bad < 4 {
				t.Errorf("seed %d: N=%d %v at %v\n%s", seed, p.Nodes, v, v.At, strings.Join(sim.Story(p), "\n"))
			}
		}
	}
	t.Log(bad, "of", n)
}
