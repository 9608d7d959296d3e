package cluster_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// golden are the tags, which are what programs agree on, and their slots. The table can only grow.
var golden = [][]string{
	{"q0/1.1 7804"},
	{"q0/2.148 4031", "q1/2.69 12142"},
	{"q0/3.111 2866", "q1/3.103 8224", "q2/3.9 13719"},
	{"q0/4.58 2085", "q1/4.102 6101", "q2/4.34 10319", "q3/4.53 14254"},
	{"q0/5.22 1612", "q1/5.27 4937", "q2/5.217 8130", "q3/5.5 11498", "q4/5.54 14780"},
	{"q0/6.302 1367", "q1/6.111 4100", "q2/6.66 6800", "q3/6.125 9520", "q4/6.161 12340", "q5/6.19 15017"},
	{
		"q0/7.77 1140", "q1/7.33 3476", "q2/7.253 5889", "q3/7.17 8242", "q4/7.13 10487", "q5/7.45 12900", "q6/7.169 15246",
	},
}

// The danger: programs of two versions that do not exclude each other.
func TestTags_NeverChange(t *testing.T) {
	for i, want := range golden {
		var tags []string
		for node := range i + 1 {
			n := cluster.New(nil).Node(node, i+1)
			require.Equal(t, "{"+n.Name()+"}", n.Tag())
			tags = append(tags, fmt.Sprint(n.Name(), " ", n.Slot()))
		}
		require.Equal(t, want, tags)
	}
}

// The slots of each master are those that redis-cli --cluster create gives it.
func TestTags_LieOnDifferentMasters(t *testing.T) {
	for n := 1; n <= cluster.MaxNodes; n++ {
		for masters := n; masters <= 200; masters++ {
			owners, has := map[int]int{}, 16384/float64(masters)
			for node := range n {
				slot := cluster.New(nil).Node(node, n).Slot()
				owner := 0
				for owner < masters-1 && slot > int(math.RoundToEven(float64(owner+1)*has-1)) {
					owner++
				}
				require.NotContains(t, owners, owner, "%d nodes, %d masters", n, masters)
				owners[owner] = node
			}
		}
	}
}

func TestTags_HaveTheirSlots(t *testing.T) {
	server := testredis.Real(t, 1, "--cluster-enabled", "yes")[0]
	for n := 1; n <= cluster.MaxNodes; n++ {
		for i := range n {
			found := cluster.New(nil).Node(i, n)
			for _, key := range []string{"key", "{key}:fence", "", "{", "}"} {
				slot, err := server.Do("CLUSTER", "KEYSLOT", found.Tag()+key)
				require.NoError(t, err)
				require.EqualValues(t, found.Slot(), slot)
			}
		}
	}
}
