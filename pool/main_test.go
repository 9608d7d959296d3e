package pool_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// bound is how long a test waits for what has to happen: far above what it takes.
	bound = 20 * time.Second
	// ttl is one that no test sees the end of.
	ttl = time.Minute
	// tick is how often a test looks whether it has happened.
	tick = 2 * time.Millisecond
)

// patient makes a node that no busy machine makes impatient, for tests in which every command is answered.
func patient() pool.Option { return pool.WithTimeout(bound) }

// inbox is where the replies to commands arrive.
type inbox chan pool.Reply

func (b inbox) Reply(_ int, _ *pool.Command, reply pool.Reply) { b <- reply }

// next waits for the next reply.
func (b inbox) next(t testing.TB) pool.Reply {
	t.Helper()
	select {
	case reply := <-b:
		return reply
	case <-time.After(bound):
		require.FailNow(t, "a command was never answered")
		return pool.Reply{}
	}
}

// send puts a command to the node and returns where its reply arrives.
func send(node *pool.Node, cmd *pool.Command) inbox {
	replies := make(inbox, 8) // one is right; room for more shows that too many came
	node.Send(time.Now(), cmd, replies, 0)
	return replies
}

// ask puts a command to the node and waits for the reply.
func ask(t testing.TB, node *pool.Node, cmd *pool.Command) pool.Reply {
	t.Helper()
	return send(node, cmd).next(t)
}

// requireYes asks and fails the test unless the answer is yes.
func requireYes(t testing.TB, node *pool.Node, cmd *pool.Command) {
	t.Helper()
	reply := ask(t, node, cmd)
	require.NoError(t, reply.Err)
	require.Equal(t, pool.Yes, reply.Answer)
}

// requireReply fails the test unless the reply has this answer and reason.
func requireReply(t testing.TB, answer pool.Answer, reason error, reply pool.Reply) {
	t.Helper()
	require.ErrorIs(t, reply.Err, reason)
	require.Equal(t, answer, reply.Answer)
}

// open makes a node that is closed with its test.
func open(t testing.TB, url string, opts ...pool.Option) *pool.Node {
	t.Helper()
	nodes, err := pool.Open([]string{url}, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { closeInTime(t, nodes[0]) })
	return nodes[0]
}

// closeInTime fails the test if Close hangs.
func closeInTime(t testing.TB, node *pool.Node) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- node.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(bound):
		require.FailNow(t, "Close hangs")
	}
}

// pass lets time go by. Only for synctest, where that costs none and everything else has happened before.
func pass(d time.Duration) { <-time.After(d) }

// onBoth runs a test on each kind of server.
func onBoth(t *testing.T, test func(t *testing.T, server redistest.Server)) {
	t.Run("redis-server", func(t *testing.T) { test(t, redistest.Real(t, 1)[0]) })
	t.Run("miniredis", func(t *testing.T) { test(t, redistest.Mini(t, 1)[0]) })
}

// do runs a command on the server that has to work.
func do(t testing.TB, server redistest.Server, cmd string, args ...any) any {
	t.Helper()
	reply, err := server.Do(cmd, args...)
	require.NoError(t, err)
	return reply
}
