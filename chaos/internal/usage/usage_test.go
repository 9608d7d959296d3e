package usage_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/chaos/internal/usage"
)

// run returns what two processes note in a hundred seconds. What the second of them needs is given by at.
func run(at func(second int) history.Op) (ops []*history.Op) {
	for i := range 100 {
		steady, other := history.Op{Client: "a", Goroutines: 50, Heap: 8 << 20, Files: 30}, at(i)
		other.Client = "b"
		for _, o := range []*history.Op{&steady, &other} {
			o.Kind, o.Start = history.Usage, int64(i)*1e9
			ops = append(ops, o)
		}
	}
	return ops
}

func TestGrown_NamesWhatAProcessNeedsMoreOfAtTheEnd(t *testing.T) {
	flat := func(i int) history.Op {
		return history.Op{Goroutines: 50 + i%100, Heap: int64(8+i%20) << 20, Files: 30 + i%10}
	}
	require.Empty(t, usage.Grown(run(flat)))
	require.Empty(t, usage.Grown(run(func(i int) history.Op {
		o := flat(i)
		if i%20 == 0 {
			o.Goroutines = 100000
		}
		return o
	})), "for moments")
	require.Equal(t, []string{"b: from 150 to 950 goroutines"},
		usage.Grown(run(func(i int) history.Op { return history.Op{Goroutines: 10 * i} })))
	require.Equal(t, []string{"b: from 15 to 95 megabytes of heap"},
		usage.Grown(run(func(i int) history.Op { return history.Op{Heap: int64(i) << 20} })))
	require.Equal(t, []string{"b: from 30 to 190 open files and connections"},
		usage.Grown(run(func(i int) history.Op { return history.Op{Files: 2 * i} })))
	require.Equal(t, []string{"a: it is not known what it needed, for the most part"},
		usage.Grown([]*history.Op{{Kind: history.Usage, Client: "a"}}))
}

func TestWrite_DrawsALineForEachProcessAndNeed(t *testing.T) {
	var page strings.Builder
	require.NoError(t, usage.Write(&page, run(func(i int) history.Op { return history.Op{Goroutines: 100 * i} })))
	require.Equal(t, 6, strings.Count(page.String(), "<polyline"))
	require.Contains(t, page.String(), "goroutines, up to 9900")
	require.Contains(t, page.String(), "1000.0,0.0", "the most, at the end")
	require.NoError(t, usage.Write(&page, nil))
}
