package stack_test

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/mutation"
)

// ranks are the mutexes of the library by the field that each is, and its place in the order in which they are taken (invariant 9 of
// docs/design.md). Of one rank nobody takes two. That of a wrapped pool's connection and that of a timer are taken last, and call nobody.
var ranks = map[string]int{
	"internal/engine/entry.go": 1, "internal/engine/names.go": 2, "internal/engine/engine.go": 2, "internal/engine/renewals.go": 2, "internal/engine/watch.go": 4, "internal/node/node.go": 3,
	"redlock/outage.go": 4, "redlock/waits.go": 4, "redlock/observer.go": 4, "internal/node/redigo.go": 5, "clock/system.go": 5,
}

var mutex = regexp.MustCompile(`(?m)^\t(\w+ +)sync\.Mutex\b`)

// ranked is a package whose mutexes panic if they are taken in another order by one goroutine.
const ranked = `package ranked

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
)

var (
	mu   sync.Mutex
	held = map[string][]int{} // by goroutine
)

func goroutine() string {
	var room [64]byte
	return string(bytes.Fields(room[:runtime.Stack(room[:], false)])[1])
}

func lock(m *sync.Mutex, rank int) {
	g := goroutine()
	mu.Lock()
	for _, other := range held[g] {
		if other >= rank {
			mu.Unlock()
			panic(fmt.Sprintf("takes a mutex of rank %d, and has one of rank %d", rank, other))
		}
	}
	held[g] = append(held[g], rank)
	mu.Unlock()
	m.Lock()
}

func unlock(m *sync.Mutex, rank int) {
	m.Unlock()
	g := goroutine()
	mu.Lock()
	defer mu.Unlock()
	for i, other := range held[g] {
		if other == rank {
			held[g] = append(held[g][:i], held[g][i+1:]...)
			if len(held[g]) == 0 {
				delete(held, g)
			}
			return
		}
	}
	panic("releases the mutex of another goroutine")
}
`

// The danger: a deadlock that needs two goroutines at the wrong moments. One goroutine that takes two mutexes in the other order is enough
// to find it here.
func TestStack_MutexesAreTakenInOneOrder(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	sources, err := mutation.Sources(root, "clock", "redlock", "internal/engine", "internal/lock", "internal/form", "internal/quorum", "internal/wire", "internal/node")
	require.NoError(t, err)
	maps.DeleteFunc(sources, func(_ string, source []byte) bool { return !mutex.Match(source) })
	for name, source := range sources {
		require.Contains(t, ranks, name, "a mutex that has no place in the order")
		text := mutex.ReplaceAllString(string(source), fmt.Sprintf("\t${1}ranked.Rank%d", ranks[name]))
		head, rest, ok := strings.Cut(text, "\t\"sync\"\n")
		require.True(t, ok, name)
		sources[name] = []byte(head + "\t\"sync\"\n\t\"github.com/quorumlock/quorumlock/internal/ranked\"\n" + rest + "\nvar _ sync.Mutex\n")
	}
	require.Len(t, ranks, len(sources))
	source := ranked
	for rank := 1; rank <= 5; rank++ {
		source += fmt.Sprintf("\ntype Rank%[1]d struct{ m sync.Mutex }\n\nfunc (m *Rank%[1]d) Lock() { lock(&m.m, %[1]d) }\n\nfunc (m *Rank%[1]d) Unlock() { unlock(&m.m, %[1]d) }\n", rank)
	}
	sources["internal/ranked/ranked.go"] = []byte(source)
	overlay, err := mutation.Overlay(root, t.TempDir(), sources)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", overlay, "-run", "NoPlanBreaksAPromise", ".", "-seeds", "150")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
