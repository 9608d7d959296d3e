package bench_test

import (
	"bufio"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// hordeCallers is how many goroutines there are where connections are counted.
const hordeCallers = 256

// BenchmarkF_Connections is how many connections a node has at most while 256 callers work (conns/node).
func BenchmarkF_Connections(b *testing.B) {
	each(b, subject.Named("floor", "quorumlock", "redsync"), 5, func(b *testing.B, s subject.Subject, servers []*testredis.Process) {
		most := 0
		for b.Loop() {
			most = max(most, connections(b, s, servers))
		}
		b.ReportMetric(float64(most), "conns/node")
	})
}

func TestAllCallersShareThreeConnectionsToANodeAtMost(t *testing.T) {
	for _, s := range subject.Named("quorumlock") {
		assert.LessOrEqual(t, connections(t, s, testredis.Real(t, 5)), 3)
	}
}

// connections lets a crowd of callers work and returns the most connections that a node had meanwhile.
func connections(tb testing.TB, s subject.Subject, servers []*testredis.Process) int {
	tb.Helper()
	observers := make([]*observer, len(servers))
	for i, server := range servers {
		observers[i] = observe(tb, server)
	}
	crowd := gather(open(tb, s, servers, hordeCallers, ampleTimeout), hordeCallers)
	done := make(chan error)
	go func() { done <- crowd.cycles(10) }()
	most := 0
	for working := true; working; {
		select {
		case err := <-done:
			require.NoError(tb, err)
			working = false // and one last look
		default:
		}
		for _, o := range observers {
			most = max(most, o.connections(tb))
		}
	}
	return most
}

// observer looks at one server's connections.
type observer struct {
	conn   redis.Conn
	before int
}

func observe(tb testing.TB, server *testredis.Process) *observer {
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, conn.Close()) })
	o := &observer{conn: conn}
	o.before = o.connections(tb)
	return o
}

// connections returns how many there are beyond those that were there at first, such as the observer's own.
func (o *observer) connections(tb testing.TB) int {
	list, err := redis.String(o.conn.Do("CLIENT", "LIST"))
	require.NoError(tb, err)
	n := 0
	for lines := bufio.NewScanner(strings.NewReader(list)); lines.Scan(); n++ {
	}
	return n - o.before
}
